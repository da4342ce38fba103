"""The documentation shows the data that the code runs on."""

from itertools import zip_longest

import pytest

from sluiceway.types.dirty import DirtyReason
from sluiceway.types.dirty_pages import PAGES
from tools.reference_pages import PAGES as PAGES_OF_CODE
from tools.type_pages import BLOCKS, CELLS, DOCS, cells, generated


def first_difference(text: str, wanted: str) -> str:
    for number, (line, other) in enumerate(
        zip_longest(text.splitlines(), wanted.splitlines(), fillvalue=""), 1
    ):
        if line != other:
            return f"{number}: {line}"
    return ""


@pytest.mark.parametrize("page", BLOCKS)
def test_page_shows_the_data(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    assert first_difference(text, generated(page, text)) == "", "run make docs"


@pytest.mark.parametrize("page", PAGES_OF_CODE)
def test_page_of_code_is_current(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    assert first_difference(text, PAGES_OF_CODE[page]()) == "", "run make docs"


def test_cells_of_the_matrices_are_current() -> None:
    assert first_difference(CELLS.read_text("utf-8"), cells()) == "", "run make docs"


def test_page_without_its_block_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 blocks reasons"):
        generated("guides/dirty-rows.md", "# Dirty rows\n")


def test_every_reason_is_explained() -> None:
    assert set(PAGES) == set(DirtyReason)
    text = (DOCS / "guides/dirty-rows.md").read_text("utf-8")
    assert [reason for reason in DirtyReason if f"| `{reason}` |" not in text] == []
