"""docs/reference/settings.md equals the page that is generated from the settings."""

from tests.docs.scripts import script


def test_the_page_is_up_to_date() -> None:
    settings = script("settings")
    written = settings.PAGE.read_text(encoding="utf-8")
    assert written == settings.page(), "run `make generated`"
    assert "| `training_eta` | `20` | at least 1 |" in written
