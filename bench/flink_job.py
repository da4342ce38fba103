"""Runs one Flink SQL job in a JVM of its own and waits for its end; started by `flink`.

Over Py4J, as PyFlink does it: the statements run in the JVM, nothing of a row comes here.
"""

import json
import subprocess
import sys
from pathlib import Path

from py4j.java_gateway import GatewayParameters, JavaGateway

OPENED = ("java.lang", "java.net", "java.nio", "java.util", "java.util.concurrent")


def run_job(description: Path) -> None:
    """Start the JVM, run the statements, wait for the last one, end the JVM."""
    job = json.loads(description.read_text())
    command = [
        *(job["java"], f"-Xmx{job['heap']}"),
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
        *("-cp", job["class_path"], "py4j.GatewayServer", "--die-on-broken-pipe", "0"),
    ]
    jvm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert jvm.stdout is not None  # noqa: S101 - a pipe was asked for
    assert jvm.stdin is not None  # noqa: S101
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=int(jvm.stdout.readline())))
    try:
        _execute(gateway, job["settings"], job["statements"])
    finally:
        gateway.shutdown()
        jvm.stdin.close()
        jvm.wait()


def _execute(gateway: JavaGateway, settings: dict[str, str], statements: list[str]) -> None:
    java = gateway.jvm
    values = java.java.util.HashMap()
    for key, value in settings.items():
        values.put(key, value)
    flink = java.org.apache.flink
    configuration = flink.configuration.Configuration.fromMap(values)
    chosen = flink.table.api.EnvironmentSettings.newInstance().inStreamingMode()
    environment = flink.table.api.TableEnvironment.create(
        chosen.withConfiguration(configuration).build()
    )
    for statement in statements[:-1]:
        environment.executeSql(statement)
    # The method's name is a keyword here.
    getattr(environment.executeSql(statements[-1]), "await")()


if __name__ == "__main__":
    run_job(Path(sys.argv[1]))
    sys.exit(0)
