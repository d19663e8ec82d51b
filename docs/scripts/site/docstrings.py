"""Docstrings as Markdown. They align names and descriptions in columns; Markdown would make one paragraph of them."""

import re

import griffe

NAMED = re.compile(r"(\S.*?)\s{2,}(\S.*)")


class Aligned(griffe.Extension):
    """Rewrites every docstring when Griffe has read it."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring:
            obj.docstring.value = "\n\n".join(map(markdown, re.split(r"\n\s*\n", obj.docstring.value)))


def markdown(paragraph: str) -> str:
    """Return a paragraph as it is, or as a list if each of its lines has a name, two blanks, and what it is."""
    lines = paragraph.splitlines()
    if paragraph.startswith(" ") or not NAMED.fullmatch(lines[0]):
        return paragraph
    entries: list[str] = []
    for line in lines:
        named = NAMED.fullmatch(line)
        if named and not line.startswith(" "):
            entries.append(f"* `{named[1]}`: {named[2]}")
        elif entries:
            entries[-1] += f" {line.strip()}"
    return "\n".join(entries)
