"""What Python's side of Spark says by itself when its JVM is gone: nothing."""

import subprocess
import sys

_GONE = """
import logging
from py4j.java_gateway import GatewayClient, GatewayParameters
from py4j.protocol import ERROR_ON_RECEIVE, Py4JNetworkError
from sluiceway.driver.spark.session import leave_the_end_to_the_runner

class Gone:
    def send_command(self, command):
        raise Py4JNetworkError("Error while sending or receiving", when=ERROR_ON_RECEIVE)
    def close(self, reset):
        self.closed = True

if {quiet}:
    leave_the_end_to_the_runner()
client = GatewayClient(gateway_parameters=GatewayParameters(port=1))
client._get_connection = Gone
print(client.send_command("c"))
logging.getLogger("other").warning("of another library")
logging.getLogger("other").info("too small to be told")
"""


def _said(*, quiet: bool) -> tuple[str, str]:
    command = [sys.executable, "-c", _GONE.replace("{quiet}", str(quiet))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_end_of_the_jvm_is_left_to_the_runner_and_all_else_is_told() -> None:
    answer, said = _said(quiet=True)
    assert answer == "x\n"
    assert said == "of another library\n"


def test_it_would_be_told_with_a_traceback() -> None:
    assert "Traceback" in _said(quiet=False)[1]
