"""Tests of README and docs: every command block runs, every link and path leads somewhere."""
