"""What Spark, started as the manifests say, asks of Kubernetes; the API server only takes notes."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tools.job_files import write_job
from tools.kubernetes_api import FakeApi, fake_api

PATIENCE_S = 240.0
SECRET = "of-a-file-5d1c"  # noqa: S105 - opens nothing
POD = "driver-of-this-test"


def _manifests(tmp_path: Path, master: str) -> dict[str, Any]:
    """Rendered for a job with a secret, by the command of a user."""
    job = write_job(
        tmp_path, bootstrap_servers="127.0.0.1:1", metastore_uri="thrift://h:9083", topic="orders"
    )
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    spark_conf = '{spark.executor.memory: 700m, spark.executor.instances: "2"}'
    text = job.path.read_text().replace('"local[2]"', f'"{master}", spark_conf: {spark_conf}')
    reference = f'"127.0.0.1:1", properties: {{ssl.key.password: "${{file:{secret}}}"}}'
    job.path.write_text(text.replace('"127.0.0.1:1"', reference))
    subprocess.run(
        [
            *(sys.executable, "-m", "sluiceway", "k8s", "render", str(job.path)),
            *("--image", "registry/sluiceway:1", "--namespace", "lake", "--out", "k8s"),
            *("--node-selector", "pool=lake", "--toleration", "lake=yes:NoSchedule"),
            *("--label", "team=x"),
        ],
        cwd=tmp_path,
        check=True,
    )
    path = tmp_path / "k8s" / "manifests.yaml"
    return {each["kind"]: each for each in YAML(typ="safe").load_all(path.read_text())}


def _mount(found: dict[str, Any], tmp_path: Path) -> str:
    """Put Secret and ConfigMap where the pod's volumes would be; its command for that place."""
    etc, conf = tmp_path / "etc", tmp_path / "conf"
    mounted = {"job": found["Secret"]["stringData"], "spark": found["ConfigMap"]["data"]}
    for name, data in mounted.items():
        (etc / name).mkdir(parents=True)
        for key, text in data.items():
            file = etc / name / key
            file.write_text(text.replace("/etc/sluiceway", str(etc)))
            file.chmod(stat.S_IRUSR | stat.S_IWUSR)
    (container,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    command: str = container["command"][2]
    for there, here in (
        ("/etc/sluiceway", str(etc)),
        ("/tmp/spark-conf", str(conf)),  # noqa: S108 - the pod's own folder
        ("/opt/sluiceway/bin/sluiceway", f"{sys.executable} -m sluiceway"),
        ("--health-port 8081", ""),
    ):
        command = command.replace(there, here)
    return command


def _wait_for(holds: Callable[[], object], process: subprocess.Popen[bytes], log: Path) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not holds():
        assert process.poll() is None, log.read_text()[-4000:]
        assert time.monotonic() < give_up_at, log.read_text()[-4000:]
        time.sleep(0.2)


def _run(api: FakeApi, tmp_path: Path) -> dict[str, Any]:
    found = _manifests(tmp_path, f"k8s://{api.url}")
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _mount(found, tmp_path)],
            cwd=tmp_path,
            env={**os.environ, "POD_IP": "127.0.0.1", "POD_NAME": POD, "TMPDIR": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            _wait_for(lambda: len(api.made("pods")) >= 2, process, log)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    return found


def test_executors_are_asked_for_as_the_manifests_say_within_the_rights_of_their_role(
    tmp_path: Path,
) -> None:
    with fake_api() as api:
        found = _run(api, tmp_path)
        requests = api.requests()
    for pod in api.made("pods"):
        meta, spec = pod["metadata"], pod["spec"]
        assert meta["labels"]["team"] == "x"
        assert meta["labels"]["spark-role"] == "executor"
        assert spec["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
        assert spec["nodeSelector"] == {"pool": "lake"}
        wanted = {"key": "lake", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
        assert wanted.items() <= spec["tolerations"][0].items()
        (container,) = spec["containers"]
        assert container["image"] == "registry/sluiceway:1"
        # Heap and what Spark adds to it for Python.
        assert container["resources"]["limits"]["memory"] == "1084Mi"
        # A driver that is gone takes its executors along.
        assert [owner["name"] for owner in meta["ownerReferences"]] == [POD]
    assert {request.namespace for request in requests} == {"lake"}
    (rule,) = found["Role"]["rules"]
    beyond = {
        (request.verb, request.resource)
        for request in requests
        if request.verb not in rule["verbs"] or request.resource not in rule["resources"]
    }
    assert beyond == set()
    # Executors get the plans of their tasks, never the job's secrets.
    assert SECRET not in str(requests)
