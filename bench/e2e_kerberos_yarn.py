"""A job on a YARN with Kerberos, in cluster mode, for longer than its first tokens hold.

KDC, HDFS, YARN, metastore and Kafka are real processes; all but Kafka take nobody who is not logged
in. Tickets hold three minutes, delegation tokens three at the most. `sluiceway submit --deploy
cluster` hands the job over, and then its keytab is taken away: the driver has only what came along.
Once the tokens of the submission have ended for good the ApplicationMaster is killed, so that a new
one has to begin with others; then an executor. `list` and `stop` are asked as a user would.
At the end every file is read whole, and a reader of its own counts each record of the topic.

`python -m bench.e2e_kerberos_yarn [--renewals 3]` tells what it does on standard error and ends
with one JSON line; 1 is the exit code when anything is wrong.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.cluster_load import Story, tell
from bench.kerberos_rows import (
    PARTITIONS,
    TOPIC,
    counted_rows,
    orders_command,
)
from bench.run_failed import RunFailedError
from bench.tidy_end import end_tidily
from bench.yarn_story import SPARK_SETTINGS, container_jvms, kill_tree
from sluiceway.cluster.yarn import YarnUser, yarn_attempts, yarn_state
from sluiceway.lab.hdfs import TOKEN_LONGEST_LIFE_S
from sluiceway.lab.kafka import create_topic
from sluiceway.lab.kerberos import TICKET_LIFE_S
from sluiceway.lab.lab import Lab, LabEndpoints, StoreServer
from tools.job_files import JobFile
from tools.secured_job import secured_job

_RATE_PER_S = 50
_INTERVAL_S = 3
_LONGEST_S = 1_200
_MASTER_CLASS = b"deploy.yarn.ApplicationMaster"
_EXECUTOR_CLASS = b"YarnCoarseGrainedExecutorBackend"
_SERVERS = (StoreServer.KERBEROS, StoreServer.HDFS, StoreServer.YARN)


@dataclass(slots=True)
class _Run:
    """The job, and what was seen of its drivers' logs."""

    lab: Lab
    endpoints: LabEndpoints
    story: Story
    application: str = ""

    def user(self) -> YarnUser:
        if self.endpoints.yarn is None or self.endpoints.realm is None:
            raise RunFailedError("the lab has no YARN with a realm")
        return YarnUser(str(self.endpoints.yarn.config_dir), self.endpoints.realm.login)

    def attempts(self) -> int:
        return yarn_attempts(self.application, self.user())

    def told(self, event: str) -> int:
        """How often the newest driver has told an event.

        Its log is read where it lies: a node manager with Kerberos shows none without the native
        code of Hadoop, which the lab does not have.
        """
        logs = self.lab.folder.glob(f"nodemanager-*/containers/{self.application}/*_000001/stdout")
        newest = max(logs, key=lambda path: path.parent.name, default=None)
        lines = [] if newest is None else newest.read_text(errors="replace").splitlines()
        # The last one may be half written.
        found = [json.loads(line) for line in lines if line.startswith("{") and line[-1:] == "}"]
        return sum(line.get("event") == event for line in found)

    def has_committed(self) -> bool:
        """Whether the driver that runs now has; one that has ended for good never will.

        Raises:
            RunFailedError: YARN has given the application up.
        """
        found = yarn_state(self.application, self.user())
        if found.ended:
            raise RunFailedError(f"the application is {found.state}: {found.diagnostics}")
        return self.told("committed") > 0

    def kill_one(self, main_class: bytes) -> None:
        found = container_jvms(self.lab, main_class)
        if not found:
            raise RunFailedError(f"no {main_class.decode()} runs")
        kill_tree(found[0][1])


def _story(lab: Lab, folder: Path, renewals: int) -> dict[str, object]:
    endpoints = lab.up()
    job = _job(folder, endpoints)
    run = _Run(lab, endpoints, job)
    create_topic(endpoints.bootstrap_servers, TOPIC, PARTITIONS)
    seconds = 2 * TOKEN_LONGEST_LIFE_S + (renewals + 1) * TICKET_LIFE_S // 2
    count = seconds * _RATE_PER_S
    tell(f"{count} rows within {seconds} s")
    command = orders_command(endpoints, count, seconds)
    writer = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    began = time.monotonic()
    try:
        found = _disasters(run, renewals)
        if writer.wait(timeout=_LONGEST_S) != 0:
            raise RunFailedError(f"the writer ended with {writer.returncode}")
        # Rows that do not fit the table are read too.
        job.wait_for_rows(count)
    finally:
        if writer.poll() is None:
            writer.kill()
        writer.wait()
    ran_s = round(time.monotonic() - began)
    job.command("stop", "secured")
    tell("every file is read")
    verified = job.verified()
    return {
        "ticket_s": TICKET_LIFE_S,
        "token_s": TOKEN_LONGEST_LIFE_S,
        "ran_s": ran_s,
        **found,
        "verified": verified,
        **counted_rows(endpoints, folder / "copy", count),
    }


def _job(folder: Path, endpoints: LabEndpoints) -> Story:
    """The job of the story, with a keytab of its own that can be taken away."""
    realm, yarn = endpoints.realm, endpoints.yarn
    if realm is None or yarn is None:
        raise RunFailedError("the lab has no YARN with a realm")
    keytab = folder / "etl.keytab"
    keytab.touch(mode=0o600)
    keytab.write_bytes(Path(realm.login.keytab).read_bytes())
    text = secured_job(endpoints, TOPIC, interval=f"{_INTERVAL_S}s", keytab=str(keytab))
    master = f"master: yarn, spark_conf: {json.dumps(SPARK_SETTINGS)}"
    path = folder / "job.yaml"
    path.write_text(text.replace('master: "local[1]"', master))
    return Story(
        JobFile(path, f"ods.{TOPIC}"),
        folder,
        endpoints.bootstrap_servers,
        endpoints.metastore_uri,
        {"HADOOP_CONF_DIR": str(yarn.config_dir)},
    )


def _disasters(run: _Run, renewals: int) -> dict[str, object]:
    """Driver and executor die, the first when its first tokens have ended; what was seen.

    Meanwhile the commands of this machine go by the ticket that the driver keeps renewed: it is
    the same machine and user.
    """
    story = run.story
    tell("submitting: the environment is packed and uploaded")
    answer = story.command("submit", str(story.job.path), "--deploy", "cluster", "-o", "json")
    run.application = json.loads(answer)["cluster_id"]
    submitted = time.monotonic()
    keytab = story.folder / "etl.keytab"
    aside = keytab.with_name("aside")
    keytab.rename(aside)
    tell("the keytab is gone from where the job file has it")
    story.wait_until(run.has_committed, "first commit")
    shown = story.only_job()
    if shown["state"] != "running":
        raise RunFailedError(f"`list` shows a job that commits as {shown}")
    left_s = submitted + TOKEN_LONGEST_LIFE_S + 20 - time.monotonic()
    tell(f"{left_s:.0f} s until the tokens of the submission have ended for good")
    time.sleep(max(0.0, left_s))
    tell("killing the ApplicationMaster")
    # A busy machine may need more than one to bring the first driver its files in time.
    attempts = run.attempts()
    run.kill_one(_MASTER_CLASS)
    story.wait_until(lambda: run.attempts() > attempts, "new attempt")
    story.wait_until(run.has_committed, "commit of the new attempt")
    tell("killing an executor")
    run.kill_one(_EXECUTOR_CLASS)
    before = run.told("committed")
    story.wait_until(lambda: run.told("committed") > before + 3, "commits after that")
    story.wait_until(lambda: run.told("hdfs_tokens_renewed") > renewals, f"{renewals} renewals")
    found = {
        "renewals": run.told("hdfs_tokens_renewed") - 1,
        "not_renewed": run.told("hdfs_tokens_not_renewed"),
        "halts": run.told("route_halted"),
    }
    aside.rename(keytab)
    return {**found, "attempts": run.attempts(), "executors_killed": 1}


def main() -> int:
    """Run the story."""
    end_tidily()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--renewals", type=int, default=3, help="of tokens, by the second driver")
    renewals: int = parser.parse_args().renewals
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory(prefix="sluiceway-kerberos-yarn-") as name:
        folder = Path(name)
        lab = Lab(folder / "lab", stores=_SERVERS)
        try:
            found = _story(lab, folder, renewals)
        except RunFailedError as error:
            print(json.dumps({"e2e": "kerberos-yarn", "passed": False, "why": str(error)}))
            return 1
        finally:
            lab.down()
    wrong = any(found[name] for name in ("lost", "not_wanted", "doubled", "halts"))
    passed = bool(found["verified"]) and not wrong
    print(json.dumps({"e2e": "kerberos-yarn", "passed": passed, **found}))
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
