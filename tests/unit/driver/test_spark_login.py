from sluiceway.driver.spark.spark_login import login_settings
from sluiceway.host.kerberos import KerberosLogin

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
