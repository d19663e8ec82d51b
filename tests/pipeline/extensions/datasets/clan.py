"""The family graph under another name."""

from dataclasses import replace

from kgcore.registries import DATASETS

DATASETS.add("clan", replace(DATASETS.get("family"), name="clan"))
