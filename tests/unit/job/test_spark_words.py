"""Why Spark does not start, in one line of its own words."""

from sluiceway.job.spark_words import why_not_started, without_stack

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
