"""Text with columns separated by tabs. Quotes are ordinary characters."""

from functools import partial

from kgcore.datasets.formats.base import Format
from kgcore.datasets.formats.text import TABS, read_text
from kgcore.registries import FORMATS

FORMATS.add("tsv", Format("tab-separated text", (".tsv", ".txt"), partial(read_text, style=TABS)))
