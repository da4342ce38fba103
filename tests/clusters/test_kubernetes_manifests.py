"""`k8s render` against the API's own schemas (`make proofs NAME=test-k8s` installs them)."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sluiceway.cluster.job_archive import JobArchive
from sluiceway.cluster.kubernetes import PodChoices, objects, pairs, toleration
from sluiceway.errors import WrongUsageError
from tools.job_files import write_job

_SCHEMAS = os.environ.get("SLUICEWAY_K8S_SCHEMAS", "")
_VERSION = "1.34"
_CHECK = """
import sys, kubernetes_validate
from ruamel.yaml import YAML
for each in YAML(typ="safe").load_all(open(sys.argv[1])):
    kubernetes_validate.validate(each, sys.argv[2], strict=True)
    print(each["kind"])
"""


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    job = write_job(
        tmp_path, bootstrap_servers="k1:9092", metastore_uri="thrift://h:9083", topic="orders"
    )
    secret = tmp_path / "secret"
    secret.write_text("of-a-file")
    text = job.path.read_text().replace('"local[2]"', '"k8s://https://kubernetes.default.svc"')
    reference = f'"k1:9092", properties: {{ssl.key.password: "${{file:{secret}}}"}}'
    job.path.write_text(text.replace('"k1:9092"', reference))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sluiceway", "k8s", "render", str(job.path)),
            *("--image", "registry/sluiceway:1", "--namespace", "lake", "--out", "k8s"),
            *("--driver-memory", "3Gi", "--driver-cpu", "2", "--node-selector", "pool=lake"),
            *("--toleration", "lake=yes:NoSchedule", "--toleration", "spot", "--label", "team=x"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "k8s" / "Dockerfile").read_text().count("sluiceway-env.tar.gz") == 2
    return tmp_path / "k8s" / "manifests.yaml"


def _all(path: Path) -> dict[str, Any]:
    return {each["kind"]: each for each in YAML(typ="safe").load_all(path.read_text())}


def test_secrets_are_in_the_secret_alone(manifests: Path) -> None:
    assert stat.S_IMODE(manifests.stat().st_mode) == 0o600
    found = _all(manifests)
    assert found["Secret"]["stringData"]["file-0"] == "of-a-file"
    assert "${file:/etc/sluiceway/job/file-0}" in found["Secret"]["stringData"]["orders.yaml"]
    del found["Secret"]
    assert "of-a-file" not in str(found)


def test_every_name_that_is_referred_to_is_there(manifests: Path) -> None:
    found = _all(manifests)
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
    secret, config = pod["volumes"]
    assert secret["secret"]["secretName"] == found["Secret"]["metadata"]["name"]
    assert config["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
    assert {each["metadata"]["namespace"] for each in found.values()} == {"lake"}
    assert found["RoleBinding"]["roleRef"]["name"] == found["Role"]["metadata"]["name"]
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    matched = found["Deployment"]["spec"]["selector"]["matchLabels"]
    assert labels == {**matched, "team": "x"}


def test_placement_is_that_of_driver_and_executors(manifests: Path) -> None:
    found = _all(manifests)
    pod = found["Deployment"]["spec"]["template"]["spec"]
    resources = pod["containers"][0]["resources"]
    assert resources["requests"] == {"memory": "3Gi", "cpu": "2"}
    tolerations = [
        {"key": "lake", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
    ]
    assert (pod["nodeSelector"], pod["tolerations"]) == ({"pool": "lake"}, tolerations)
    template = YAML(typ="safe").load(found["ConfigMap"]["data"]["executor-pod.yaml"])
    assert template["spec"] == {"tolerations": tolerations}
    settings = found["ConfigMap"]["data"]["spark-defaults.conf"].splitlines()
    assert "spark.kubernetes.executor.podTemplateFile /etc/sluiceway/spark/executor-pod.yaml" in (
        settings
    )
    assert "spark.kubernetes.executor.label.team x" in settings
    assert "spark.kubernetes.node.selector.pool lake" in settings


@pytest.mark.parametrize("text", ["", "=x", "a=b:Never", "a b", "a=b:NoSchedule:x"])
def test_toleration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(WrongUsageError, match="--toleration"):
        toleration(text)


@pytest.mark.parametrize("text", ["", "a", "=b", "a=b c"])
def test_label_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(WrongUsageError, match="--label"):
        pairs("--label", [text])


def test_variables_come_from_the_secret() -> None:
    parcel = JobArchive("orders.yaml", "a: ${env:WORD}", {"WORD": "hidden"}, {}, {})
    *_, secret, deployment = objects("orders", parcel, PodChoices("image"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (variable,) = [each for each in container["env"] if each["name"] == "WORD"]
    key = variable["valueFrom"]["secretKeyRef"]["key"]
    assert secret["stringData"][key] == "hidden"


@pytest.mark.skipif(not _SCHEMAS, reason="make proofs NAME=test-k8s installs the schemas")
def test_manifests_are_as_the_schemas_of_the_api_say(manifests: Path) -> None:
    def check(path: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", _CHECK, str(path), _VERSION],
            env={**os.environ, "PYTHONPATH": _SCHEMAS},
            capture_output=True,
            text=True,
            check=False,
        )

    done = check(manifests)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 6
    wrong = manifests.with_name("wrong.yaml")
    wrong.write_text(manifests.read_text().replace("replicas: 2", "replicas: two"))
    assert check(wrong).returncode != 0
