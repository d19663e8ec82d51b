"""Text with columns separated by commas. Quotes may enclose a value, and a doubled quote stands for one."""

from functools import partial

from kgcore.datasets.formats.base import Format
from kgcore.datasets.formats.text import COMMAS, read_text
from kgcore.registries import FORMATS

FORMATS.add("csv", Format("comma-separated text", (".csv",), partial(read_text, style=COMMAS)))
