"""The page in a real browser, on a job that runs on real servers: `make proofs NAME=test-ui`.

Chromium opens each view at 1280 and 1920, dark and light. Nothing may be written to the console,
axe-core may find nothing, the keyboard has to reach what a mouse does, and what is shown has to
be what the job has. A second page has texts that want to be markup, and thousands of
routes. With `--pictures FOLDER` the views are kept as pictures.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.boards_check import free_port, wait_until
from tools.driver_process import DriverProcess
from tools.job_files import JobFile, event, write_job
from tools.lab_fixture import shared_lab
from tools.topic_writer import TopicWriter
from tools.ui_hostile import check_hostile, check_token

HOUR_MS = 3_600_000
SIZES = ((1280, 800), (1920, 1080))
THEMES = ("light", "dark")
ROWS = 300
LEAST_FIGURES = 3
_MOST_WEST = 12
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def missing(axe: Path) -> list[str]:
    """What is needed and not there, each with how to get it."""
    found = []
    if browser() is None:
        found.append("chromium (apt-get install --no-install-recommends chromium)")
    if importlib.util.find_spec("playwright") is None:
        found.append(
            "playwright (`make proofs NAME=test-ui` installs it from the package registry)"
        )
    if not axe.is_file():
        found.append("axe-core (`make proofs NAME=test-ui` installs it; apt-get install npm)")
    return found


def browser() -> str | None:
    """Chromium as the system has it: Playwright's own would be another download."""
    return next((place for name in BROWSERS if (place := shutil.which(name))), None)


@contextlib.contextmanager
def job_with_a_past(folder: Path) -> Iterator[tuple[JobFile, str]]:
    """A job that runs: hours that were announced, one that is overdue, dirty and late rows."""
    with shared_lab(folder / "lab") as lab:
        endpoints = lab.endpoints()
        topic = f"page_{os.getpid()}"
        _create(endpoints.bootstrap_servers, topic)
        job = write_job(
            folder,
            bootstrap_servers=endpoints.bootstrap_servers,
            metastore_uri=endpoints.metastore_uri,
            topic=topic,
            event_time=(
                "{field: ts, unit: ms, out_of_orderness: 0s, idle_after: 1h,"
                f" timezone: {_zone_soon_after_midnight()}}}"
            ),
            ready="{visible: on_commit}",
            files="{compact: never}",
        )
        writer = TopicWriter(endpoints.bootstrap_servers)
        now_ms = time.time_ns() // 1_000_000
        for hour in range(6, 0, -1):
            at_ms = now_ms - hour * HOUR_MS
            writer.write(topic, [event(n, ts_ms=at_ms) for n in range(ROWS // 6)])
        # The other source partition stays behind: the hours after it are held, and overdue.
        writer.write(topic, [event(1, ts_ms=now_ms - 4 * HOUR_MS)], partition=1)
        writer.write(topic, [b'{"id":1.5,"ts":1}', b"{", b"[1]"])
        with DriverProcess(job, folder, module="tools.inline_driver") as driver:
            driver.wait_for_event("committed")
            yield job, topic


def _zone_soon_after_midnight() -> str:
    """Where it is past two: the board's newest day has too few columns for its name."""
    west = (time.gmtime().tm_hour - 2) % 24
    west -= 24 if west > _MOST_WEST else 0
    return f"Etc/GMT{west:+d}"


def _create(bootstrap_servers: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415

    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)


@contextlib.contextmanager
def served(places: list[Path], folder: Path) -> Iterator[str]:
    """`sluiceway serve` as a process; its address."""
    command = [sys.executable, "-m", "sluiceway", "serve", *map(str, places)]
    # As where it is installed: commands that are shown begin with `sluiceway` alone.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    with (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(free_port())],
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        code = process.wait(30)
        assert code == 0, (code, (folder / "serve.log").read_text())


def views(job: str, route: str, partition: str) -> dict[str, str]:
    """Name of a view -> its address behind the page's."""
    return {
        "fleet": "#/",
        "overview": f"#/job/{job}",
        "hours": f"#/job/{job}/hours?why-route={route}&why={partition}",
        "dirty": f"#/job/{job}/dirty?of={route}&reason=broken&path=&state=open",
        "ledger": f"#/job/{job}/ledger",
        "broken": "#/job/broken",
    }


class Findings:
    """What the browser has reported."""

    def __init__(self) -> None:
        self.pages = 0
        self.console: list[str] = []
        self.violations: list[str] = []
        self.wrong: list[str] = []

    def expect(self, what: str, *, holds: bool) -> None:
        """Note a fault unless it holds."""
        if not holds:
            self.wrong.append(what)

    def watch(self, page: Any) -> None:
        """Note errors and warnings of a page."""

        def note(message: Any) -> None:
            if message.type in ("error", "warning"):
                self.console.append(message.text)

        page.on("console", note)
        page.on("pageerror", lambda error: self.console.append(str(error)))


def look(page: Any, address: str, axe: str, found: Findings, picture: Path | None) -> None:
    """Open one view; note what axe finds."""
    page.goto(address)
    page.wait_for_selector("main > :not(.loading)")
    page.wait_for_selector("#pulse.good, main .problem")
    page.wait_for_timeout(400)
    found.pages += 1
    if picture is not None:
        page.screenshot(path=str(picture))
    page.evaluate(axe)
    result = page.evaluate(
        "tags => axe.run(document, {runOnly: {type: 'tag', values: tags}})", AXE_TAGS
    )
    for each in result["violations"]:
        where = each["nodes"][0]["html"][:200]
        found.violations.append(f"{address}: {each['id']}: {where}")


def check_content(page: Any, address: str, job: str, found: Findings) -> None:
    """What is shown is what the job has, and the keyboard reaches it."""
    page.goto(f"{address}#/job/{job}/hours")
    page.wait_for_selector("a.cell.overdue")
    found.expect("no ready hour is shown", holds=page.locator("a.cell.ready").count() > 0)
    page.locator("a.cell.overdue").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".why-text")
    text = page.locator(".why").inner_text()
    found.expect(f"why names no holder: {text}", holds="[1]" in text)
    page.goto(f"{address}#/job/{job}/dirty")
    page.wait_for_selector("td a[role=button]")
    page.locator("td a[role=button]").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".sample")
    command = page.locator(".command code").first.inner_text()
    found.expect(f"no replay is named: {command}", holds=" dirty replay " in command)
    page.goto(f"{address}#/job/{job}")
    page.wait_for_selector(".plot path.line")
    plot = page.locator(".plot").first
    plot.focus()
    before = plot.get_attribute("aria-valuetext")
    page.keyboard.press("Home")
    after = plot.get_attribute("aria-valuetext")
    found.expect(f"arrow keys read no figure: {before} {after}", holds=bool(after))
    page.select_option("#theme", "dark")
    theme = page.evaluate("document.documentElement.dataset.theme")
    found.expect(f"the theme is {theme}", holds=theme == "dark")


def check(axe: Path, pictures: Path | None) -> Findings:
    """Open all views; what was found."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - where it is installed

    found = Findings()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluiceway-ui-")))
        job, _ = stack.enter_context(job_with_a_past(folder))
        broken = folder / "broken.yaml"
        broken.write_text("version: 1\nname: broken\nsource: {conection: main}\n")
        address = stack.enter_context(served([job.path, broken], folder))
        play = stack.enter_context(sync_playwright())
        chromium = play.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        name = job.path.stem
        overdue = _overdue(address, name)
        _have_figures(address, name)
        script = axe.read_text("utf-8")
        for width, height in SIZES:
            for theme in THEMES:
                context = chromium.new_context(
                    viewport={"width": width, "height": height}, color_scheme=theme
                )
                page = context.new_page()
                found.watch(page)
                for view, where in views(name, job.spec.routes[0].name, overdue).items():
                    kept = None if pictures is None else pictures / f"{view}-{width}-{theme}.png"
                    look(page, address + where, script, found, kept)
                context.close()
        page = chromium.new_page()
        found.watch(page)
        check_content(page, address, name, found)
        check_hostile(chromium, found)
        check_token(chromium, found)
        chromium.close()
    return found


def _have_figures(address: str, job: str) -> None:
    """Wait until the charts have lines."""
    from tools.boards_check import fetch  # noqa: PLC0415

    def are_there() -> bool:
        return len(json.loads(fetch(f"{address}api/jobs/{job}/history"))["at_ms"]) > LEAST_FIGURES

    if not wait_until(are_there):
        raise AssertionError("no figures are kept")


def _overdue(address: str, job: str) -> str:
    """The first overdue hour, once the page shows one."""
    from tools.boards_check import fetch  # noqa: PLC0415

    names: list[str] = []

    def is_there() -> bool:
        routes = json.loads(fetch(f"{address}api/jobs/{job}/partitions"))["routes"]
        states = [each for route in routes for each in route.get("prefixes", ())]
        names[:] = [each["prefix"] for each in states if each["state"] == "overdue"]
        return bool(names)

    if not wait_until(is_there):
        raise AssertionError("no hour is overdue")
    return names[0]


def main() -> int:
    """Check all; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--axe", type=Path, required=True, help="axe.min.js")
    parser.add_argument("--pictures", type=Path, help="a folder for pictures of all views")
    options = parser.parse_args()
    absent = missing(options.axe)
    if absent:
        sys.stderr.write(f"not run, missing: {'; '.join(absent)}\n")
        return 1
    found = check(options.axe, options.pictures)
    for each in (*found.console, *found.violations, *found.wrong):
        sys.stderr.write(f"{each}\n")
    print(
        json.dumps(
            {
                "pages": found.pages,
                "console_errors": len(found.console),
                "a11y_violations": len(found.violations),
                "wrong": len(found.wrong),
            }
        )
    )
    return 1 if found.console or found.violations or found.wrong or not found.pages else 0


if __name__ == "__main__":
    sys.exit(main())
