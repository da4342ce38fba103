"""Logins and delegation tokens on Spark's side."""

from pathlib import Path

import pytest

from sluiceway.driver.spark.spark_login import login_settings
from sluiceway.driver.spark.token_jvm import spark_class_path
from sluiceway.errors import KerberosUnavailableError
from sluiceway.host.kerberos import KerberosLogin


def _jars(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "py4j-0.10.9.9.jar").touch()
    return folder


def test_jars_of_pyspark_come_first(tmp_path: Path) -> None:
    own, others = _jars(tmp_path / "own"), _jars(tmp_path / "others")
    found = spark_class_path(own, {"CLASSPATH": f"{others}/*"})
    assert found == (own / "py4j-0.10.9.9.jar", f"{own}/*")


def test_driver_of_a_packed_environment_finds_those_of_its_container(tmp_path: Path) -> None:
    container = _jars(tmp_path / "__spark_libs__")
    class_path = f"{tmp_path}:{tmp_path}/__spark_conf__:{container}/*:{tmp_path}/more/*"
    found = spark_class_path(tmp_path / "no-jars", {"CLASSPATH": class_path})
    assert found == (container / "py4j-0.10.9.9.jar", class_path)


@pytest.mark.parametrize("environment", [{}, {"CLASSPATH": "/nothing/*"}])
def test_no_jars_anywhere_are_told_in_one_line(tmp_path: Path, environment: dict[str, str]) -> None:
    with pytest.raises(KerberosUnavailableError, match="no jars of Spark"):
        spark_class_path(tmp_path / "no-jars", environment)


LOGIN = KerberosLogin("etl@EXAMPLE.ORG", "/etc/etl.keytab")
OF_A_REALM = KerberosLogin("etl@EXAMPLE.ORG", "/etc/etl.keytab", "/etc/other.conf")
FLAG = "-Djava.security.krb5.conf=/etc/other.conf"


def test_spark_logs_in_as_the_job_does() -> None:
    assert login_settings(LOGIN, {}) == {
        "spark.kerberos.principal": "etl@EXAMPLE.ORG",
        "spark.kerberos.keytab": "/etc/etl.keytab",
    }


def test_login_of_the_job_file_s_own_settings_stays() -> None:
    own = {"spark.kerberos.principal": "spark@EXAMPLE.ORG", "spark.kerberos.keytab": "/s.keytab"}
    assert login_settings(LOGIN, own) == {}


def test_every_jvm_finds_the_realm_beside_what_it_is_told_else() -> None:
    found = login_settings(OF_A_REALM, {"spark.executor.extraJavaOptions": "-Xss1m"})
    assert found["spark.executor.extraJavaOptions"] == f"-Xss1m {FLAG}"
    assert found["spark.driver.extraJavaOptions"] == FLAG
    assert found["spark.yarn.am.extraJavaOptions"] == FLAG
