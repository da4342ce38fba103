"""YARN by the programs of Spark and Hadoop: submit, status, kill, logs.

They support what REST alone does not: Kerberos, several resource managers, collected logs.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sluiceway.cluster.job_archive import JobArchive, driver_program
from sluiceway.cluster.spark_conf import PYTHON_THERE, UNPACKED
from sluiceway.driver.spark.spark_login import login_settings
from sluiceway.errors import SubmissionError
from sluiceway.host.http import read_url
from sluiceway.host.java import find_java
from sluiceway.host.kerberos import KerberosLogin, log_in, realm_flag
from sluiceway.jobfile.blocks.values import is_secret_key

_SUBMIT_TIMEOUT_S = 600.0
_ASK_TIMEOUT_S = 120.0
_NODE_TIMEOUT_S = 30.0
_APPLICATION_ID = re.compile(r"\bapplication_\d+_\d+\b")
_FIELD = re.compile(r"^\s*(State|Final-State|AM Host|Diagnostics)\s*:\s*(.*)$", re.MULTILINE)
_ATTEMPT = re.compile(r"\bappattempt_\d+_\d+_\d+\b")
_DRIVER_LOG = re.compile(r"(https?://[^/\s]+)/node/containerlogs/(container_\w+_000001)\b")
_LOG_BEGINS = "LogContents:\n"
_LOG_ENDS = "\nEnd of LogType:"
_CLIENT = "org.apache.hadoop.yarn.client.cli"
_FORGOTTEN = "FORGOTTEN"
"""Not YARN's own state: YARN keeps 1,000 applications, and after a restart often none."""
_NOT_KNOWN = re.compile(r"Application with id '\w+' doesn't exist in RM")
_ENDED = frozenset({"FINISHED", "FAILED", "KILLED", _FORGOTTEN})
_TAIL_LINES = 12
_ATTEMPTS = 1000
"""How often the driver may be started; YARN's own limit of attempts is mostly lower."""

# The line that names the application is written, whatever the cluster's own settings are.
_LOG_SETTINGS = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
logger.client.name = org.apache.hadoop.yarn.client.api.impl.YarnClientImpl
logger.client.level = info
logger.submit.name = org.apache.spark.deploy.yarn.Client
logger.submit.level = info
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex
"""


@dataclass(frozen=True, slots=True)
class YarnUser:
    """The user and the cluster of a call.

    Attributes:
        hadoop_conf: HADOOP_CONF_DIR.
        login: Login for the calls; None for the process's ticket, or for a name only.
    """

    hadoop_conf: str
    login: KerberosLogin | None = None

    def log_in(self) -> None:
        """Get a ticket for the programs that this process starts.

        Raises:
            KerberosRefusedError: The realm refuses.
            KerberosUnavailableError: No KDC answers.
        """
        if self.login is not None:
            log_in(self.login)

    def java_flags(self) -> list[str]:
        """Java flags of a JVM that calls YARN."""
        config = "" if self.login is None else self.login.config
        return [realm_flag(config)] if config else []


@dataclass(frozen=True, slots=True)
class YarnState:
    """State of an application, by the resource manager.

    Attributes:
        state: `ACCEPTED`, `RUNNING`, `FINISHED`, `FAILED`, `KILLED` and some earlier ones;
            `FORGOTTEN` when the resource manager does not know it.
        final: `SUCCEEDED`, `FAILED`, `KILLED`, or `UNDEFINED` while it runs.
        diagnostics: YARN's text about its end; often empty.
    """

    state: str
    final: str
    diagnostics: str

    @property
    def ended(self) -> bool:
        """Whether it will not run again."""
        return self.state in _ENDED


def submit_to_yarn(
    name: str, archive: JobArchive, environment: str, spark_conf: Mapping[str, str], user: YarnUser
) -> str:
    """Submit a job in cluster mode; returns the application's id. Takes up to a minute.

    Args:
        name: Name of the job.
        archive: The job file and what it refers to; the ApplicationMaster alone gets it.
        environment: Archive that all containers unpack; empty: they have Python and packages.
        spark_conf: `run.spark_conf`. Its secrets are left to the driver.
        user: The user who owns the application.

    Raises:
        SubmissionError: YARN did not accept it.
    """
    settings = {
        "spark.yarn.submit.waitAppCompletion": "false",
        "spark.yarn.maxAppAttempts": str(_ATTEMPTS),
        # For a driver that runs for months, only failures of the last hour count.
        "spark.yarn.am.attemptFailuresValidityInterval": "1h",
        "spark.executor.failuresValidityInterval": "1h",
        "spark.driver.memory": "512m",
        **{key: value for key, value in spark_conf.items() if not is_secret_key(key)},
    }
    if user.login is not None:
        settings |= login_settings(user.login, settings)
    user.log_in()
    if environment:
        settings["spark.archives"] = f"{environment}#{UNPACKED}"
        settings["spark.yarn.appMasterEnv.PYSPARK_PYTHON"] = PYTHON_THERE
        settings["spark.executorEnv.PYSPARK_PYTHON"] = PYTHON_THERE
    with tempfile.TemporaryDirectory(prefix="sluiceway-submit-") as folder:
        program = Path(folder) / "driver.py"
        program.touch(mode=0o600)
        program.write_text(driver_program(name, archive))
        # In a file, so that no command line shows the settings.
        properties = Path(folder) / "spark.properties"
        properties.touch(mode=0o600)
        properties.write_text(_properties(settings))
        log_settings = Path(folder) / "log4j2.properties"
        log_settings.write_text(_LOG_SETTINGS)
        said = _run(
            [
                *(str(_spark_home() / "bin" / "spark-submit"), "--master", "yarn"),
                *("--deploy-mode", "cluster", "--name", f"sluiceway-{name}"),
                *("--properties-file", str(properties), "--load-spark-defaults", str(program)),
            ],
            "YARN did not take the job",
            more={
                "SPARK_SUBMIT_OPTS": " ".join(
                    (f"-Dlog4j2.configurationFile={log_settings.as_uri()}", *user.java_flags())
                )
            },
            timeout_s=_SUBMIT_TIMEOUT_S,
        )
    found: list[str] = _APPLICATION_ID.findall(said)
    if not found:
        raise SubmissionError(
            f"spark-submit reported no application:\n{_tail(said)}",
            hint="look at HADOOP_CONF_DIR and at the resource manager",
        )
    return found[-1]


def yarn_state(application: str, user: YarnUser) -> YarnState:
    """Read the state of an application.

    Raises:
        SubmissionError: YARN does not answer.
    """
    try:
        said = _ask(["ApplicationCLI", "application", "-status", application], user)
    except SubmissionError as error:
        if _NOT_KNOWN.search(str(error)) is None:
            raise
        return YarnState(_FORGOTTEN, "UNDEFINED", "")
    fields = dict(_FIELD.findall(said))
    if "State" not in fields:
        raise SubmissionError(
            f"YARN does not say how {application} is:\n{_tail(said)}",
            hint="is HADOOP_CONF_DIR that of the submission?",
        )
    diagnostics = fields.get("Diagnostics", "").strip()
    return YarnState(fields["State"].strip(), fields.get("Final-State", "").strip(), diagnostics)


def yarn_attempts(application: str, user: YarnUser) -> int:
    """How often its ApplicationMaster, which is the driver, was started.

    Raises:
        SubmissionError: YARN does not answer.
    """
    said = _ask(["ApplicationCLI", "applicationattempt", "-list", application], user)
    return len(set(_ATTEMPT.findall(said)))


def kill_on_yarn(application: str, user: YarnUser) -> None:
    """End an application; its containers get TERM, and KILL a moment later. Safe to repeat.

    Raises:
        SubmissionError: YARN does not answer.
    """
    _ask(["ApplicationCLI", "application", "-kill", application], user)


def yarn_log(application: str, user: YarnUser) -> str:
    """The log of the newest driver so far, with Spark's standard error.

    Hadoop's own program for logs does not run with Spark's jars, so the driver's node is asked.

    Raises:
        SubmissionError: The application does not run now, or its node does not answer.
    """
    asked = ["applicationattempt", "-list", application]
    attempts = sorted(set(_ATTEMPT.findall(_ask(["ApplicationCLI", *asked], user))))
    said = ""
    if attempts:
        said = _ask(["ApplicationCLI", "container", "-list", attempts[-1]], user)
    found = _DRIVER_LOG.search(said)
    if found is None:
        raise SubmissionError(
            f"no driver of {application} runs now, and its node keeps the log",
            hint=f"of an application that has ended: `yarn logs -applicationId {application}`",
        )
    address = f"{found[1]}/ws/v1/node/containers/{found[2]}/logs/stdout"
    try:
        raw = read_url(address, _NODE_TIMEOUT_S)
    except (OSError, ValueError) as error:
        raise SubmissionError(
            f"the driver's node gives no log: {error}",
            where=address,
            hint=f"`yarn logs -applicationId {application}` may: a node with Kerberos wants its "
            "own login, or Hadoop's native code",
        ) from error
    return _log_content(raw.decode(errors="replace"))


def _log_content(answer: str) -> str:
    """The content of a log without the node's header and footer."""
    _, begun, content = answer.partition(_LOG_BEGINS)
    return content.rpartition(_LOG_ENDS)[0] if begun else answer


def _spark_home() -> Path:
    own = os.environ.get("SPARK_HOME")
    if own:
        return Path(own)
    spec = find_spec("pyspark")
    for location in (spec and spec.submodule_search_locations) or ():
        return Path(location)
    raise SubmissionError("pyspark is needed, and is not installed", hint="install it again")


def _properties(settings: Mapping[str, str]) -> str:
    """Settings as a Java properties file."""
    escaped = {
        key: value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        for key, value in settings.items()
    }
    return "".join(f"{key}={value}\n" for key, value in sorted(escaped.items()))


def _ask(command: Sequence[str], user: YarnUser) -> str:
    main, *arguments = command
    user.log_in()
    class_path = f"{user.hadoop_conf}:{_spark_home()}/jars/*"
    flags = ["-Xmx256m", "-XX:+UseSerialGC", *user.java_flags()]
    java = [str(find_java().executable), *flags, "-cp", class_path]
    return _run(
        [*java, f"{_CLIENT}.{main}", *arguments],
        "YARN does not answer",
        more={"HADOOP_CONF_DIR": user.hadoop_conf},
        timeout_s=_ASK_TIMEOUT_S,
    )


def _run(
    command: Sequence[str], complaint: str, *, more: Mapping[str, str], timeout_s: float
) -> str:
    try:
        done = subprocess.run(  # noqa: S603
            command,
            env={**os.environ, "JAVA_HOME": str(find_java().path), **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout_s,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SubmissionError(
            f"{complaint}: {error}", hint="look at the resource manager"
        ) from error
    if done.returncode != 0:
        raise SubmissionError(
            f"{complaint}:\n{_tail(done.stdout)}",
            hint="look at HADOOP_CONF_DIR, at the login (kinit) and at the resource manager",
        )
    return done.stdout


def _tail(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-_TAIL_LINES:])
