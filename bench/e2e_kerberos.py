"""A table on secured HDFS and metastore under tickets of three minutes, renewed over and over.

KDC, HDFS and metastore are real processes of the lab, with encryption on every way. Rows come
without an end, the driver is killed once, and the KDC is away for half a minute. The tickets that
are counted are those of the cache file, read by this program itself. At the end every record that
was written has to be accounted for, and every file is read whole.

`python -m bench.e2e_kerberos [--renewals 5]` tells what it does on standard error and ends with
one JSON line; 1 is the exit code when anything is wrong.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.tidy_end import end_tidily
from sluiceway.host.kerberos import log_in
from sluiceway.host.ticket_cache import read_ticket
from sluiceway.lab.kafka import create_topic
from sluiceway.lab.kerberos import KDC, TICKET_LIFE_S
from sluiceway.lab.lab import Lab, StoreServer

# The job file belongs to the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from tools.secured_job import secured_job

_COMMAND = (sys.executable, "-m", "sluiceway")
_RATE_PER_S = 200
_POLL_S = 1.0
_KDC_AWAY_S = 30.0


class RunFailedError(Exception):
    """What was to hold does not."""


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class _Run:
    """The driver, the writer, and the tickets that were seen."""

    def __init__(self, lab: Lab, job: Path, folder: Path, cache: Path, servers: str) -> None:
        self._lab = lab
        self._job = job
        self._log = folder / "driver.log"
        self._cache = cache
        self._servers = servers
        self._starts: set[int] = set()
        self.drivers = 0

    def renewals(self) -> int:
        ticket = read_ticket(self._cache)
        if ticket is not None:
            self._starts.add(ticket.start_s)
            if time.time() > ticket.end_s:
                raise RunFailedError(f"the ticket ended at {ticket.end_s}, and none came after")
        return max(0, len(self._starts) - 1)

    def start(self) -> subprocess.Popen[bytes]:
        self.drivers += 1
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*_COMMAND, "run", str(self._job)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self, driver: subprocess.Popen[bytes], renewals: int, most_s: float) -> None:
        """Until so many renewals were seen, with the driver alive all the time."""
        deadline = time.monotonic() + most_s
        while self.renewals() < renewals:
            if driver.poll() is not None:
                raise RunFailedError(f"the driver ended with {driver.returncode}: {self._tail()}")
            if time.monotonic() > deadline:
                raise RunFailedError(
                    f"{self.renewals()} renewals in {most_s:.0f} s: {self._tail()}"
                )
            time.sleep(_POLL_S)

    def orders(self, *more: str) -> list[str]:
        named = ("--topic", "orders", "--partitions", "2", "--bootstrap-servers", self._servers)
        return [sys.executable, "-m", "sluiceway.lab.order_events", *named, *more]

    def without_kdc(self, driver: subprocess.Popen[bytes], seconds: float) -> None:
        self._lab.kill_server(KDC)
        time.sleep(seconds)
        self._lab.start_server(KDC)
        if driver.poll() is not None:
            raise RunFailedError(f"the driver ended without the KDC: {self._tail()}")

    def events(self, name: str) -> int:
        return self._log.read_text().count(f'"event": "{name}"')

    def command(self, *arguments: str) -> str:
        done = subprocess.run(
            [*_COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=600
        )
        if done.returncode != 0:
            raise RunFailedError(f"{arguments} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    def _tail(self) -> str:
        return self._log.read_text()[-3000:]


def _end(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """The process and all that it started, by its session."""
    if process.poll() is None:
        os.killpg(process.pid, number)
        process.wait()


def _story(lab: Lab, folder: Path, renewals: int) -> dict[str, object]:
    endpoints = lab.up()
    if endpoints.realm is None:
        raise RunFailedError("the lab has no realm")
    job = folder / "job.yaml"
    job.write_text(secured_job(endpoints, "orders", interval="5s"))
    cache = log_in(endpoints.realm.login)
    run = _Run(lab, job, folder, cache, endpoints.bootstrap_servers)
    seconds = round((renewals + 2) * TICKET_LIFE_S / 2)
    count = seconds * _RATE_PER_S
    _tell(f"{count} rows within {seconds} s")
    create_topic(endpoints.bootstrap_servers, "orders", 2)
    writer = subprocess.Popen(
        run.orders("--count", str(count), "--seconds", str(seconds)), stdout=subprocess.DEVNULL
    )
    driver = run.start()
    began = time.monotonic()
    try:
        first = (renewals + 1) // 2
        run.wait(driver, first, (first + 2) * TICKET_LIFE_S)
        _tell(f"{run.renewals()} renewals; the driver is killed")
        _end(driver, signal.SIGKILL)
        driver = run.start()
        run.wait(driver, first + 1, 3 * TICKET_LIFE_S)
        _tell(f"{run.renewals()} renewals; the KDC is away for {_KDC_AWAY_S:.0f} s")
        run.without_kdc(driver, _KDC_AWAY_S)
        run.wait(driver, renewals, (renewals + 2) * TICKET_LIFE_S)
        _tell(f"{run.renewals()} renewals; the writer is waited for")
        while writer.poll() is None:
            run.wait(driver, 0, TICKET_LIFE_S)
            time.sleep(_POLL_S)
        ran_s = time.monotonic() - began
        os.kill(driver.pid, signal.SIGTERM)
        if driver.wait(timeout=300) != 0:
            raise RunFailedError(f"the driver was stopped and ended with {driver.returncode}")
    finally:
        _end(driver, signal.SIGKILL)
        if writer.poll() is None:
            writer.kill()
            writer.wait()
    if writer.returncode != 0:
        raise RunFailedError(f"the writer ended with {writer.returncode}")
    _tell("catching up, then every file is read")
    seen = run.renewals()
    run.command("run", str(job), "--until-caught-up")
    run.command("verify", str(job), "--deep")
    accounted = _accounted(run.command("ledger", "show", str(job), "-o", "json"))
    if accounted != count:
        raise RunFailedError(f"{count} records were written, {accounted} are accounted for")
    return {
        "ticket_s": TICKET_LIFE_S,
        "renewals": seen,
        "ran_s": round(ran_s),
        "drivers_killed": run.drivers - 1,
        "kdc_away_s": round(_KDC_AWAY_S),
        "not_renewed_events": run.events("kerberos_not_renewed"),
        "halts": run.events("route_halted"),
        "records": count,
        "accounted": accounted,
        "lost": count - accounted,
    }


def _accounted(shown: str) -> int:
    """Records of all ranges of the ledger, of which `verify` proves that each is told of."""
    return sum(
        int(each["end"]) - int(each["start"])
        for record in map(json.loads, shown.splitlines())
        if record["type"] == "DATA"
        for each in record["body"]["ranges"]
    )


def main() -> int:
    """Run the story."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--renewals", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluiceway-kerberos-") as name:
        folder = Path(name)
        lab = Lab(folder / "lab", stores=(StoreServer.KERBEROS, StoreServer.HDFS))
        try:
            found = _story(lab, folder, chosen.renewals)
        except RunFailedError as error:
            print(json.dumps({"e2e": "kerberos", "passed": False, "why": str(error)}))
            return 1
        finally:
            lab.down()
    passed = found["lost"] == 0 and found["halts"] == 0
    print(json.dumps({"e2e": "kerberos", "passed": passed, **found}))
    return 0 if passed else 1


if __name__ == "__main__":
    end_tidily()
    sys.exit(main())
