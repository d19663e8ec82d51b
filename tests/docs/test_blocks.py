"""Every fenced block has a language, and a test runs or checks every block of commands."""

import re

import pytest

from flows.cli.main import whole_app
from tests.docs.commands import unknown_words
from tests.docs.pages import CHECKOUT, LANGUAGES, MARKS, PAGES, Block, all_blocks, looks_like_a_command, name_of

app = whole_app()

BLOCKS = all_blocks()
MARKED = [block for block in BLOCKS if block.runner[0] in MARKS]


def places(blocks: list[Block]) -> list[str]:
    return [block.place for block in blocks]


@pytest.mark.parametrize("block", BLOCKS, ids=places(BLOCKS))
def test_a_block_has_a_language_and_a_known_mark(block: Block) -> None:
    assert block.language in LANGUAGES, f"{block.place}: the language is {block.language!r}"
    kind, file = block.runner
    assert not kind or kind in (*MARKS, "file"), f"{block.place}: the mark {block.mark!r} is unknown"
    assert bool(kind) == bool(file), f"{block.place}: the mark {block.mark!r} names no file"
    if block.language == "text":
        assert not looks_like_a_command(block.text), f"{block.place}: commands belong into a block of `sh`"


@pytest.mark.parametrize("block", MARKED, ids=places(MARKED))
def test_the_named_test_takes_its_blocks_from_the_page(block: Block) -> None:
    path = CHECKOUT / block.runner[1]
    assert path.is_file(), f"{block.place}: there is no {block.runner[1]}"
    assert "blocks_for(__file__)" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [name_of(page) for page in PAGES])
def test_commands_inside_sentences_have_options_that_exist(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", (CHECKOUT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for command in re.findall(r"`(kgcal [^`]+)`", text):
        assert not unknown_words(app, command), command
