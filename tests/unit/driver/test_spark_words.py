"""Why Spark does not start, and why a Spark job failed, in one line of its own words."""

import pytest

from sluiceway.driver.spark.spark_errors import (
    cause_of,
    unreadable_store,
    why_not_started,
    without_stack,
)

CALL = """An error occurred while calling None.org.apache.spark.SparkContext.
: java.lang.IllegalStateException: stopped
\tat org.apache.spark.SparkContext.assertNotStopped(SparkContext.scala:128)
\t... 3 more"""


def test_errors_that_spark_has_logged_say_why() -> None:
    log = """WARNING: Using incubator modules
19:07:16.151 WARN Utils: Set SPARK_LOCAL_IP
19:08:21.107 ERROR Backend: Application has been killed. Reason: All masters are unresponsive!
19:08:21.108 ERROR Backend: Application has been killed. Reason: All masters are unresponsive!
\tat io.netty.channel.Channel.finishConnect(Channel.java:741)
"""
    expected = "Application has been killed. Reason: All masters are unresponsive!"
    assert why_not_started(CALL, log) == expected


def test_jvm_that_does_not_come_as_far_as_its_logger_says_why() -> None:
    log = "WARNING: something\nInvalid maximum heap size: -Xmxlots\nError: no virtual machine\n"
    found = why_not_started("gateway exited", log)
    assert found == "Invalid maximum heap size: -Xmxlots | Error: no virtual machine"


def test_call_says_why_where_the_log_does_not() -> None:
    expected = " | ".join(without_stack(CALL))
    assert why_not_started(CALL, "19:07:16.151 WARN Utils: Set SPARK_LOCAL_IP\n") == expected
    assert "\n" not in expected
    assert "assertNotStopped" not in expected
    assert why_not_started("gateway exited", "") == "gateway exited"
    assert why_not_started("", "19:07:16.151 WARN Utils: Set SPARK_LOCAL_IP\n")


def test_exception_behind_an_error_is_told_and_one_that_nobody_logged() -> None:
    thrown = "org.apache.spark.SparkException: Could not parse Master URL: 'x'"
    log = f"""19:08:21.107 ERROR SparkContext: Error initializing SparkContext.
{thrown}
\tat org.apache.spark.SparkContext.create(SparkContext.scala:2741)
"""
    assert why_not_started(CALL, log) == f"Error initializing SparkContext. | {thrown}"
    death = 'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space'
    log = f"19:07:16.151 WARN Utils: Set SPARK_LOCAL_IP\n{death}\n"
    assert why_not_started("the answer is empty", log) == death


def test_options_that_the_launcher_repeats_are_not_told() -> None:
    log = "Picked up JAVA_TOOL_OPTIONS: -Dpassword=secret\nError: no virtual machine\n"
    assert why_not_started("gateway exited", log) == "Error: no virtual machine"


JAVA = """An error occurred while calling o87.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times
  File "/x/task.py", line 7, in run
ValueError: no such column

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:581)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Driver stacktrace:
\tat py4j.ClientServerConnection.run(ClientServerConnection.java:108)
\t... 1 more
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (JAVA, "ValueError: no such column"),
        ("org.x.SparkException: Job 3 cancelled\n\tat a.b.C.d(E.java:1)\n", "Job 3 cancelled"),
        ("a failure at (somewhere)", "a failure at (somewhere)"),
        ("", "RuntimeError"),
    ],
)
def test_cause_ends_with_the_words_of_the_failure(text: str, told: str) -> None:
    cause = cause_of(RuntimeError(text))
    assert cause.endswith(told)
    assert ".java:" not in cause


@pytest.mark.parametrize(
    "words",
    [
        'No FileSystem for scheme "oss"',
        "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
    ],
)
def test_spark_without_the_classes_of_a_store_is_no_failed_job(words: str) -> None:
    found = unreadable_store(
        RuntimeError(f"o61.parquet\n: java.lang.X: {words}\n\tat a.B.c(D.java:1)")
    )
    assert found is not None
    assert found.message.endswith(words)
    assert "spark.jars" in found.hint
    assert unreadable_store(RuntimeError(JAVA)) is None
