"""What is told of a failed Spark job is its cause, not the end of a stack of the JVM."""

import pytest

from sluiceway.driver.spark.spark_errors import cause_of, unreadable_store

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
