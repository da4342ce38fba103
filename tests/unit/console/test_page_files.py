"""What a browser gets: its own files alone, and no markup made of text."""

import re

import pytest

from sluiceway.console.app import PAGE

FILES = sorted(PAGE.iterdir())
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
MARKUP = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_names_no_other_server(path: object) -> None:
    assert path in FILES
    text = next(each for each in FILES if each == path).read_text("utf-8")
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`]*", text))
    assert {each for each in addresses if "www.w3.org" not in each} == set()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_script_makes_no_markup_and_imports_what_is_there(path: object) -> None:
    text = next(each for each in SCRIPTS if each == path).read_text("utf-8")
    assert [word for word in MARKUP if word in text] == []
    for name in re.findall(r'from "\./([\w.]+)"', text):
        assert (PAGE / name).is_file(), name


def test_page_has_no_script_or_style_of_its_own() -> None:
    text = (PAGE / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*src=)|<style| style=| on\w+=", text) == []
