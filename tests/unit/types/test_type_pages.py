"""The documentation shows the data that the code runs on."""

import pytest

from sluiceway.types.dirty import DirtyReason
from sluiceway.types.dirty_pages import PAGES
from tools.type_pages import BLOCKS, DOCS, generated


@pytest.mark.parametrize("page", BLOCKS)
def test_page_shows_the_data(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    wanted = generated(page, text)
    differs = [
        f"{number}: {line}"
        for number, (line, other) in enumerate(
            zip(text.splitlines(), wanted.splitlines(), strict=False), 1
        )
        if line != other
    ]
    assert differs[:1] == [], "run make docs"
    assert len(text) == len(wanted), "run make docs"


def test_page_without_its_block_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 blocks reasons"):
        generated("guides/dirty-rows.md", "# Dirty rows\n")


def test_every_reason_has_its_line() -> None:
    assert set(PAGES) == set(DirtyReason)
    text = (DOCS / "guides/dirty-rows.md").read_text("utf-8")
    assert [reason for reason in DirtyReason if f"\n| `{reason}` | " not in text] == []
