"""Submit, end and inspect jobs, on any cluster: the verbs of the command line."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sluiceway.cluster.applications import (
    Application,
    ApplicationFolder,
    Deploy,
    all_submitted,
    is_running,
    machine_elsewhere,
    now_ms,
)
from sluiceway.cluster.environment_pack import SUFFIX, environment_label, pack_environment
from sluiceway.cluster.job_archive import collect
from sluiceway.cluster.spark_conf import write_spark_conf
from sluiceway.cluster.supervised import begin_supervised, end_supervised
from sluiceway.cluster.yarn import YarnUser, kill_on_yarn, submit_to_yarn, yarn_state
from sluiceway.errors import SubmissionError, WrongUsageError
from sluiceway.host.java import find_java
from sluiceway.host.kerberos import KerberosLogin
from sluiceway.host.spark_master import STANDALONE, reachable_master
from sluiceway.jobfile.blocks.values import Secret, revealed
from sluiceway.jobfile.room_overlay import ROOM_VARIABLE

NO_ENVIRONMENT = "none"
_KUBERNETES = "k8s://"
_KEPT_ARCHIVES = 3
_OVER = frozenset({"ended", "finished", "failed", "killed", "forgotten"})


@dataclass(frozen=True, slots=True)
class JobSubmission:
    """A submission to make.

    Attributes:
        job: Name of the job.
        job_file: Path of the job file, which was checked.
        master: `run.master`.
        spark_conf: `run.spark_conf`.
        deploy: Where the driver runs; None: on this machine.
        environment: An archive, its address, or `none`; empty: this environment is packed.
        login: The job's block `kerberos`; None without.
        room: Room of its driver; empty for a job without rooms.
    """

    job: str
    job_file: Path
    master: str
    spark_conf: Mapping[str, str | Secret]
    deploy: Deploy = "client"
    environment: str = ""
    login: KerberosLogin | None = None
    room: str = ""


@dataclass(frozen=True, slots=True)
class SubmissionState:
    """State of a submitted job.

    Attributes:
        state: `running`, `waiting`, `ended`, `unsupervised`, or YARN's state in lower case.
        starts: How often its driver was started; None where only the cluster knows.
        exit_code: Exit code of the driver that ended last; None before.
        pid: Process id of the driver on this machine; None when none runs here.
    """

    state: str
    starts: int | None = None
    exit_code: int | None = None
    pid: int | None = None


def submit(wanted: JobSubmission) -> Application:
    """Start a job that goes on without this process.

    Raises:
        WrongUsageError: It runs already, or its master does not support this.
        SubmissionError: The cluster did not take it.
        UnhealthyEnvironmentError: There is no Java, the environment cannot be packed, or a folder
            cannot be created.
    """
    _check(wanted)
    folder = ApplicationFolder(wanted.job)
    folder.make()
    with folder.held():
        before = folder.read()
        # Also a job that has lost its supervisor, or that YARN has just accepted.
        if before is not None and read_submission(folder, before).state not in _OVER:
            raise WrongUsageError(
                f"the job {wanted.job} was submitted and runs",
                hint=f"end it first: `sluiceway stop {wanted.job}`",
            )
        return _begin(folder, wanted, _environment(wanted))


def resubmit(folder: ApplicationFolder, wanted: JobSubmission, *, patience_s: float) -> Application:
    """End a job and start it again. All checks run before it ends.

    Args:
        folder: Folder of the job, which was submitted.
        wanted: The new submission of the same job.
        patience_s: As `end` takes it.

    Raises:
        WrongUsageError: The job file names another job, or its master does not support this.
        SubmissionError: The job does not end, or the cluster did not accept it.
        UnhealthyEnvironmentError: There is no Java, or the environment cannot be packed.
    """
    if wanted.job != folder.path.name:
        raise WrongUsageError(
            f"the job file of {folder.path.name} names the job {wanted.job} now",
            where=str(wanted.job_file),
            hint=f"that is another job: `sluiceway stop {folder.path.name}`, then submit it",
        )
    _check(wanted)
    with folder.held():
        environment = _environment(wanted)
        before = folder.read()
        if before is not None:
            _end(folder, before, patience_s)
        return _begin(folder, wanted, environment)


def _check(wanted: JobSubmission) -> None:
    if wanted.deploy == "cluster" and wanted.master != "yarn":
        todo = "take `--deploy client`: a supervisor keeps the driver running on this machine"
        if wanted.master.startswith(_KUBERNETES):
            todo = "apply the manifests of `sluiceway k8s render JOB --image NAME:TAG`"
        raise WrongUsageError(
            f"the master {wanted.master} does not run Python drivers on the cluster", hint=todo
        )
    _check_master(wanted.master)
    # Driver and spark-submit would log it again and again, where no user looks.
    find_java()


def _begin(folder: ApplicationFolder, wanted: JobSubmission, environment: str) -> Application:
    application = Application(
        job=wanted.job,
        job_file=str(wanted.job_file.absolute()),
        master=wanted.master,
        deploy=wanted.deploy,
        environment=environment,
        environment_named=bool(wanted.environment),
        submitted_at_ms=now_ms(),
        hadoop_conf=os.environ.get("HADOOP_CONF_DIR", ""),
        login=wanted.login,
        room=wanted.room,
    )
    if wanted.deploy == "client":
        variables = {ROOM_VARIABLE: wanted.room} if wanted.room else {}
        variables |= write_spark_conf(folder.spark_conf, environment)
        return begin_supervised(folder, application, variables)
    archive = collect(wanted.job_file, os.environ, wanted.login, wanted.room)
    settings = {key: revealed(value) for key, value in wanted.spark_conf.items()}
    number = submit_to_yarn(wanted.job, archive, environment, settings, _user(application))
    taken = replace(application, cluster_id=number)
    folder.write(taken)
    return taken


def end(folder: ApplicationFolder, application: Application, *, patience_s: float) -> None:
    """End a job. Its commits stay; the next start goes on. Safe to repeat.

    Args:
        folder: Folder of the job.
        application: Its last submission.
        patience_s: Seconds that a driver of this machine gets to commit its last epoch.

    Raises:
        WrongUsageError: Another command starts or ends the job now.
        SubmissionError: It does not end, is on another machine, or the cluster does not answer.
    """
    with folder.held():
        _end(folder, folder.read() or application, patience_s)


def _end(folder: ApplicationFolder, application: Application, patience_s: float) -> None:
    if application.deploy == "client":
        if read_submission(folder, application).state != "ended":
            end_supervised(folder, application, patience_s=patience_s)
    elif not yarn_state(application.cluster_id, _user(application)).ended:
        kill_on_yarn(application.cluster_id, _user(application))


def read_submission(folder: ApplicationFolder, application: Application) -> SubmissionState:
    """Read the state of a job.

    Raises:
        SubmissionError: The cluster does not answer, or the job was submitted on another machine.
    """
    if application.deploy == "cluster":
        found = yarn_state(application.cluster_id, _user(application))
        return SubmissionState(found.state.lower())
    driver = folder.read_driver()
    elsewhere = machine_elsewhere(application.supervisor)
    if elsewhere and (driver is None or driver.state != "ended"):
        raise SubmissionError(
            f"the job {application.job} was submitted on {elsewhere}, and is not seen from here",
            where=str(folder.path),
            hint="ask on that machine; if it is gone for good, remove that folder",
        )
    if driver is None:
        # Its supervisor has just begun; the first driver is on its way.
        return SubmissionState("waiting" if is_running(application.supervisor) else "ended")
    pid = driver.driver.pid if driver.driver is not None and is_running(driver.driver) else None
    state: str = driver.state
    if state != "ended" and not is_running(application.supervisor):
        # Its supervisor was killed, or the machine restarted: no process starts it again.
        state = "ended" if pid is None else "unsupervised"
    return SubmissionState(state, driver.starts, driver.exit_code, pid)


def _user(application: Application) -> YarnUser:
    return YarnUser(application.hadoop_conf, application.login)


def _check_master(master: str) -> None:
    """Refuse a master that Spark would try for minutes, while the driver counted as running.

    Raises:
        WrongUsageError: No setting says where YARN is.
        SubmissionError: The master accepts no connection.
    """
    if master == "yarn" and not os.environ.get("HADOOP_CONF_DIR"):
        raise WrongUsageError(
            "HADOOP_CONF_DIR is not set, so YARN is not known",
            hint="set it to the folder of yarn-site.xml and core-site.xml",
        )
    if master.startswith(STANDALONE):
        try:
            reachable_master(master)
        except OSError as error:
            raise SubmissionError(
                f"the master takes no connection: {error.strerror or error}",
                where=master,
                hint="start it, or correct run.master; `sluiceway doctor JOB` looks at the rest",
            ) from error


def _environment(wanted: JobSubmission) -> str:
    """The archive for executors; packed when it is missing, and empty where none is needed."""
    if wanted.environment == NO_ENVIRONMENT or wanted.master.startswith("local"):
        return ""
    if "://" in wanted.environment:
        return wanted.environment
    if wanted.environment:
        path = Path(wanted.environment).absolute()
        if not path.is_file():
            raise WrongUsageError(
                f"there is no archive {path}", hint=f"make it: `sluiceway pack --out {path}`"
            )
        return str(path)
    root = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    archives = root.absolute() / "sluiceway" / "environments"
    path = archives / f"{environment_label()}{SUFFIX}"
    if path.is_file():
        path.touch()
    else:
        pack_environment(path)
        _forget_old(archives)
    return str(path)


def _forget_old(archives: Path) -> None:
    """Remove old archives, except those used last and those of jobs that may be started again."""
    used = {application.environment for _, application in all_submitted()}
    found = sorted(archives.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
    for path in found[:-_KEPT_ARCHIVES]:
        if str(path) not in used:
            path.unlink(missing_ok=True)
