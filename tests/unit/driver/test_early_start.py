"""A start of Spark that is begun early, and the path of its Python workers."""

from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.job_file import load_checked_job
from sluiceway.driver.spark import early_start
from sluiceway.driver.spark.early_start import SparkStart, begin_spark
from sluiceway.driver.spark.session import session_settings
from sluiceway.driver.spark.worker_daemon import archives_last
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.java import JavaHome
from sluiceway.jobfile.blocks.models import JobSpec

EXAMPLE = Path(__file__).parents[3] / "examples" / "orders.yaml"
JAVA = JavaHome(Path("/no/java"), 17, "none")


def spec_with(tmp_path: Path, run: str, more: str = "") -> JobSpec:
    text = EXAMPLE.read_text()
    lines = [line for line in text.splitlines() if not line.startswith("run:")]
    file = tmp_path / "job.yaml"
    file.write_text("\n".join([*lines, f"run: {{{run}}}", more]))
    return load_checked_job(file).spec


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    started: list[str] = []

    def start(self: SparkStart) -> Any:
        started.append(self.master)
        if not self.conf:
            raise UnhealthyEnvironmentError("Spark does not start")
        return "context", Path("log")

    monkeypatch.setenv("SLUICEWAY_KAFKA", "k1:9092")
    monkeypatch.setenv("SLUICEWAY_METASTORE", "thrift://127.0.0.1:9")
    monkeypatch.setattr(SparkStart, "context", start)
    monkeypatch.setattr(early_start, "find_java", lambda: JAVA)
    return started


def test_spark_of_this_machine_is_begun_in_a_thread(tmp_path: Path, environment: list[str]) -> None:
    starting = begin_spark(spec_with(tmp_path, "master: 'local[3]', spark_conf: {spark.a: b}"))
    assert starting is not None
    assert starting.result(60) == ("context", Path("log"))
    assert environment == ["local[3]"]


def test_its_error_comes_where_the_context_is_needed(tmp_path: Path) -> None:
    starting = begin_spark(spec_with(tmp_path, "master: local"))
    assert starting is not None
    with pytest.raises(UnhealthyEnvironmentError, match="Spark does not start"):
        starting.result(60)


@pytest.mark.parametrize(
    ("run", "more"),
    [
        ("master: yarn", ""),
        ("master: local", "kerberos: {principal: etl@EXAMPLE.ORG, keytab: /etc/etl.keytab}"),
    ],
)
def test_nothing_is_begun_before_a_login_or_for_a_cluster(
    run: str, more: str, tmp_path: Path, environment: list[str]
) -> None:
    assert begin_spark(spec_with(tmp_path, run, more)) is None
    assert environment == []


def test_only_workers_of_this_machine_have_a_daemon_of_ours() -> None:
    daemon = "spark.python.daemon.module"
    assert session_settings("local[2,4]", {}, JAVA, None)[daemon].startswith("sluiceway.")
    assert session_settings("local[2,4]", {daemon: "own"}, JAVA, None)[daemon] == "own"
    assert daemon not in session_settings("spark://m:7077", {}, JAVA, None)


def test_archives_of_spark_come_after_the_same_pyspark() -> None:
    archives = ["/env/site/pyspark/python/lib/pyspark.zip", "/env/site/pyspark/jars/core.jar"]
    assert archives_last([*archives, "", "/env/site"]) == ["", "/env/site", *archives]


def test_another_pyspark_stays_first() -> None:
    path = ["/opt/spark/python/lib/pyspark.zip", "/env/site"]
    assert archives_last(path) == path
