"""What Spark's pages and its event log would show."""

import re

import pytest

from sluiceway.driver.spark.session import default_settings

_OF_SPARK = "(?i)secret|password|token|access[.]?key"
"""`spark.redaction.regex` where nobody sets it, as Spark's configuration page has it."""


@pytest.mark.parametrize(
    "key",
    [
        *("spark.hadoop.fs.s3a.accessKey", "spark.authenticate.secret", "spark.ssl.keyPassword"),
        *("spark.hadoop.ssl.keystore.passphrase", "spark.hadoop.fs.gs.credential.file"),
        "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net",
    ],
)
def test_secrets_of_the_job_are_no_words_of_spark(key: str) -> None:
    assert re.search(default_settings()["spark.redaction.regex"], key)


def test_what_spark_hides_by_itself_stays_hidden() -> None:
    ours = default_settings()["spark.redaction.regex"]
    for word in ("SECRET", "Password", "token", "access.key", "accessKey"):
        assert re.search(_OF_SPARK, word)
        assert re.search(ours, word)
    assert not re.search(ours, "spark.driver.memory")


def test_a_class_that_finds_a_login_is_shown() -> None:
    ours = default_settings()["spark.redaction.regex"]
    for shown in (
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    ):
        assert not re.search(ours, shown)
