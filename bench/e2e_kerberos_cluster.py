"""A table on secured HDFS, written by executors that have no ticket and no keytab's login.

KDC, HDFS, metastore, Kafka, a Spark master and two workers are real processes. The workers look
for tickets in a file that is not there, for the realm in another one, and keep what they have in a
folder of their own. Rows come without an end while tickets of three minutes and delegation tokens
of two end over and over. An executor is killed once the first tokens cannot be used any more, so
that others begin with later ones; then the driver is killed, and the KDC is away for a while. At
the end every file is read whole, and a reader of its own counts each record of the topic in them.

`python -m bench.e2e_kerberos_cluster [--renewals 8]` tells what it does on standard error and ends
with one JSON line; 1 is the exit code when anything is wrong.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.cluster_load import tell
from bench.kerberos_rows import (
    PARTITIONS,
    TOPIC,
    counted_rows,
    orders_command,
    refuse_shown_tokens,
)
from bench.run_failed import RunFailedError
from bench.tidy_end import end_tidily
from sluiceway.lab.hdfs import TOKEN_LIFE_S, TOKEN_LONGEST_LIFE_S
from sluiceway.lab.kafka import create_topic
from sluiceway.lab.kerberos import KDC, TICKET_LIFE_S
from sluiceway.lab.lab import Lab, StoreServer
from tools.secured_job import secured_job
from tools.spark_cluster import SparkCluster, lonely_cluster

_COMMAND = (sys.executable, "-m", "sluiceway")
_RATE_PER_S = 100
_POLL_S = 1.0
_KDC_AWAY_S = 20.0
_OWNERS_ALONE = 0o600
_LONGEST_WAIT_S = 900.0
_INTERVAL_S = 3
_EPOCHS_BEHIND = 4


@dataclass(slots=True)
class _Run:
    """Driver and writer, and what was seen of tokens on the workers' side."""

    job: Path
    folder: Path
    workers: Path
    drivers: int = 0
    tokens: set[bytes] = field(default_factory=set)
    driver: "subprocess.Popen[bytes] | None" = None

    @property
    def log(self) -> Path:
        return self.folder / "driver.log"

    def start(self) -> None:
        self.drivers += 1
        own = self.folder / "driver-tmp"
        own.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            self.driver = subprocess.Popen(
                [*_COMMAND, "run", str(self.job), "--log-format", "json", "--standby"],
                stdout=log,
                stderr=log,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(own)},
                start_new_session=True,
            )

    def kill(self) -> None:
        if self.driver is not None and self.driver.poll() is None:
            os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver.wait()

    def look(self) -> None:
        """At the tokens that workers have now; each is for its user alone."""
        for file in self.workers.glob("sluiceway-*/hdfs-tokens-*"):
            try:
                mode, content = file.stat().st_mode & 0o777, file.read_bytes()
            except FileNotFoundError:
                continue
            if mode != _OWNERS_ALONE:
                raise RunFailedError(f"{file} has the mode {mode:o}")
            self.tokens.add(content)

    def wait_until(self, happened: Callable[[], bool], what: str) -> None:
        give_up_at = time.monotonic() + _LONGEST_WAIT_S
        while not happened():
            self.look()
            if self.driver is not None and self.driver.poll() is not None:
                raise RunFailedError(f"the driver ended: {self.log.read_text()[-3000:]}")
            if time.monotonic() > give_up_at:
                raise RunFailedError(f"no {what}: {self.log.read_text()[-3000:]}")
            time.sleep(_POLL_S)

    def events(self, name: str) -> list[dict[str, object]]:
        lines = self.log.read_text(errors="replace").splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [line for line in found if line.get("event") == name]

    def command(self, *arguments: str) -> None:
        done = subprocess.run(
            [*_COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=900
        )
        if done.returncode != 0:
            raise RunFailedError(f"{arguments} ended with {done.returncode}: {done.stderr[-3000:]}")


def _story(lab: Lab, folder: Path, renewals: int) -> dict[str, object]:
    endpoints, workers = lab.up(), folder / "workers-tmp"
    workers.mkdir()
    with lonely_cluster(folder / "cluster", workers) as cluster:
        job = folder / "job.yaml"
        job.write_text(_on(cluster, secured_job(endpoints, TOPIC, interval=f"{_INTERVAL_S}s")))
        run = _Run(job, folder, workers)
        seconds = (renewals + 3) * TOKEN_LIFE_S // 2
        count = seconds * _RATE_PER_S
        tell(f"{count} rows within {seconds} s")
        create_topic(endpoints.bootstrap_servers, TOPIC, PARTITIONS)
        writer = subprocess.Popen(
            orders_command(endpoints, count, seconds), stdout=subprocess.DEVNULL
        )
        run.start()
        try:
            ran_s = _disasters(run, cluster, lab, renewals)
            while writer.poll() is None:
                run.wait_until(lambda: writer.poll() is not None, "end of the writer")
            _catch_up_on_the_cluster(run)
        finally:
            run.kill()
            if writer.poll() is None:
                writer.kill()
            writer.wait()
        if writer.returncode != 0:
            raise RunFailedError(f"the writer ended with {writer.returncode}")
        strays = [str(file) for file in workers.glob("sluiceway-*/krb5cc-*")]
        if strays:
            raise RunFailedError(f"a worker has logged in: {strays}")
        refuse_shown_tokens(folder, run.tokens)
    tell("every file is read")
    run.command("verify", str(run.job), "--deep")
    return {
        "ticket_s": TICKET_LIFE_S,
        "token_s": TOKEN_LIFE_S,
        "ran_s": round(ran_s),
        "tokens_seen": len(run.tokens),
        "renewals": len(run.events("hdfs_tokens_renewed")) - run.drivers,
        "not_renewed_events": len(run.events("hdfs_tokens_not_renewed")),
        "drivers_killed": run.drivers - 1,
        "executors_killed": 1,
        "kdc_away_s": round(_KDC_AWAY_S),
        "halts": len(run.events("route_halted")),
        **counted_rows(endpoints, folder / "copy", count),
    }


def _disasters(run: _Run, cluster: SparkCluster, lab: Lab, renewals: int) -> float:
    """An executor dies, the KDC is away, the driver dies; how long it took."""
    began = time.monotonic()
    run.wait_until(lambda: len(run.events("committed")) > 0, "first commit")
    run.wait_until(
        lambda: time.monotonic() - began > TOKEN_LONGEST_LIFE_S + 10, "end of the first tokens"
    )
    tell(f"{len(run.tokens)} tokens seen; an executor is killed, later ones have to do")
    os.kill(cluster.executors()[0].pid, signal.SIGKILL)
    seen = len(run.events("committed"))
    run.wait_until(lambda: len(run.events("committed")) > seen + 3, "commits after that")
    tell("the KDC is away")
    lab.kill_server(KDC)
    time.sleep(_KDC_AWAY_S)
    lab.start_server(KDC)
    tell("the driver is killed")
    run.kill()
    run.start()
    run.wait_until(
        lambda: len(run.events("hdfs_tokens_renewed")) - run.drivers >= renewals, "renewals"
    )
    return time.monotonic() - began


def _catch_up_on_the_cluster(run: _Run) -> None:
    # The last rows may be committed already: what is left is read here, if anything is.
    began, most_s = time.monotonic(), _EPOCHS_BEHIND * _INTERVAL_S
    run.wait_until(lambda: time.monotonic() - began > most_s, "last epochs")
    if run.driver is not None:
        run.driver.terminate()
        code = run.driver.wait(timeout=300)
        if code != 0:
            raise RunFailedError(f"the driver was stopped and ended with {code}")
    text = run.job.read_text()
    run.job.write_text(text[: text.index("run: {")] + 'run: {interval: 1s, master: "local[1]"}\n')
    run.command("run", str(run.job), "--until-caught-up")


def _on(cluster: SparkCluster, text: str) -> str:
    master = (
        f'master: "{cluster.url}", spark_conf: {{spark.executor.memory: 512m, '
        f'spark.eventLog.enabled: "true", spark.eventLog.dir: "file://{cluster.folder}"}}'
    )
    return text.replace('master: "local[1]"', master)


def main() -> int:
    """Run the story."""
    end_tidily()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--renewals", type=int, default=8, help="of tokens")
    renewals: int = parser.parse_args().renewals
    with tempfile.TemporaryDirectory(prefix="sluiceway-kerberos-") as name:
        folder = Path(name)
        lab = Lab(folder / "lab", stores=(StoreServer.KERBEROS, StoreServer.HDFS))
        try:
            found = _story(lab, folder, renewals)
        except RunFailedError as error:
            print(json.dumps({"e2e": "kerberos-cluster", "passed": False, "why": str(error)}))
            return 1
        finally:
            lab.down()
    passed = not any(found[name] for name in ("lost", "not_wanted", "doubled", "halts"))
    print(json.dumps({"e2e": "kerberos-cluster", "passed": passed, **found}))
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
