"""What a browser does with texts that want to be markup, and with thousands of everything."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol
from urllib.parse import quote

from tools.boards_check import free_port
from tools.hostile_page import MANY, NAMES

"""How long a view of thousands of routes may take until it is there, on a loaded machine."""

_FOREIGN = "main script, main img, main iframe, main object, main style, main [onerror], main b > b"


class Findings(Protocol):
    """See `tools.ui_check`."""

    def expect(self, what: str, *, holds: bool) -> None: ...

    def watch(self, page: Any) -> None: ...


@contextlib.contextmanager
def hostile_page(*token: str) -> Iterator[str]:
    """A process that serves it; its address."""
    command = [sys.executable, "-m", "tools.hostile_page", str(free_port()), *token]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()
        assert process.wait(30) == 0


def check_hostile(chromium: Any, found: Findings) -> None:
    """No text becomes markup or turns around, no view breaks, and each is there soon."""
    with hostile_page() as address:
        page = chromium.new_page(viewport={"width": 1280, "height": 800})
        found.watch(page)

        def refuse(dialog: Any) -> None:
            found.expect(f"a dialog came up: {dialog.message}", holds=False)
            dialog.dismiss()

        page.on("dialog", refuse)
        _texts(page, address, found)
        _many(page, address, found)
        page.close()


def check_token(chromium: Any, found: Findings) -> None:
    """A wrong token is reported, and the right one lets in."""
    token = "correct-horse-battery"  # noqa: S105 - of this check alone
    with hostile_page(token) as address, _told("token", found):
        # Chromium writes each refusal to the console.
        page = chromium.new_page()
        page.goto(address)
        page.wait_for_selector("#token")
        found.expect("told of no token", holds=page.locator("[role=alert]").count() == 0)
        for wrong in ("wrong", "\u5317\u4eac"):
            page.fill("#token", wrong)
            page.keyboard.press("Enter")
            page.wait_for_selector("[role=alert]")
            page.goto("about:blank")
            page.goto(address)
            page.wait_for_selector("#token")
        page.fill("#token", token)
        page.keyboard.press("Enter")
        page.wait_for_selector(".tiles")
        page.close()


def _texts(page: Any, address: str, found: Findings) -> None:
    base = "#/job/attention"
    script = quote(NAMES[0], safe="")
    views = {
        "fleet": ("#/", ".attention li"),
        "overview": (base, "[data-key=routes] tbody tr"),
        "hours": (f"{base}/hours?why-route=only&why={script}", ".why-text"),
        "hours of one": (f"{base}/hours?route={script}", "[data-key=board] a.cell"),
        "dirty": (f"{base}/dirty?of={script}&reason=broken&path={script}&state=open", ".sample"),
        "ledger": (f"{base}/ledger", "[data-key=ledger] tbody tr"),
        "cut address": ("#/%E0%A4%A", ".attention li"),
    }
    for view, (where, there) in views.items():
        with _told(view, found):
            _open(page, address + where, there)
            # A second look changes what the first one has drawn; counts of hours come later.
            page.wait_for_timeout(2_600 if view != "fleet" else 12_000)
            found.expect(f"{view}: gone again", holds=page.locator(there).count() > 0)
            foreign = page.locator(_FOREIGN).count()
            found.expect(f"{view}: {foreign} elements of others", holds=not foreign)
            over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            found.expect(f"{view}: {over} pixels too wide", holds=over <= 0)
            text = page.locator("main").inner_text()
            found.expect(f"{view}: turns its text", holds=not {*"\u202e\u2066\x1b"} & {*text})
    with _told("words", found):
        _open(page, f"{address}{base}/dirty", "[data-key='route only'] tbody tr")
        text = page.locator("main").inner_text()
        found.expect(
            "a year is left out", holds="9223372036854776000 ms" in text and "1970" in text
        )
        found.expect("ends of lines in a name are lost", holds="two\\u000alines" in text)
    with _told("charts", found):
        _open(page, f"{address}#/job/still", ".plot")
        # Looked at several times: figures there are, but of no route.
        page.wait_for_timeout(8_000)
        found.expect("empty charts say nothing", holds=page.locator(".chart-empty").count() > 0)
    with _told("runbook", found):
        _open(page, address + base, "summary")
        page.locator("summary").first.click()
        page.wait_for_selector(".runbook h3")


def _many(page: Any, address: str, found: Findings) -> None:
    base = "#/job/many"
    views = {
        "fleet of many": ("#/", "text=/and [\\d,]+ more/"),
        "overview of many": (base, "[data-key=routes] tbody tr"),
        "hours of many": (f"{base}/hours", "[data-key=board] a.cell"),
        "dirty of many": (f"{base}/dirty", "[data-key=rest]"),
        "ledger of many": (f"{base}/ledger", "[data-key=ledger] tbody tr"),
    }
    for view, (where, there) in views.items():
        with _told(view, found):
            _open(page, address + where, there)
            rows = page.locator("main tr").count()
            found.expect(f"{view}: {rows} rows", holds=rows < MANY)
    with _told("epochs of one", found):
        _open(page, address + base, "[data-key='choice Route']")
        page.locator("[data-key='choice Route']").select_option("route-2500")
        _until(page, lambda: page.locator("table >> text=Last epochs of route-2500").count() > 0)
    for view, where in (("routes", base), ("tables", f"{base}/hours")):
        with _told(f"find {view}", found):
            _open(page, address + where, "input.finder")
            page.locator("input.finder").focus()
            page.keyboard.type(f"route-{MANY - 1}", delay=20)
            _until(page, lambda: page.locator("tbody tr >> text=route-2999").count() > 0)
            typed = page.locator("input.finder").input_value()
            found.expect(f"{view}: typed text became {typed}", holds=typed == f"route-{MANY - 1}")


def _open(page: Any, address: str, there: str) -> None:
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector(there, timeout=20_000, state="attached")


def _until(page: Any, holds: Callable[[], bool]) -> None:
    for _ in range(60):
        if holds():
            return
        page.wait_for_timeout(200)
    raise TimeoutError("it did not come")


@contextlib.contextmanager
def _told(view: str, found: Findings) -> Iterator[None]:
    """A view that does not come is a fault, and the others are looked at."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - Playwright's own kinds
        found.expect(f"{view}: {str(error).splitlines()[0]}", holds=False)
