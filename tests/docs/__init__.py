"""Tests of README and docs: every command block runs, and the target of every link and path exists."""
