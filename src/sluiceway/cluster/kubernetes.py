"""Kubernetes: manifests of a driver that starts executors as pods, and the recipe of their image.

The driver runs as a Deployment in Spark's client mode: a pod that dies is replaced, and a second
replica is a standby. Rendered only; nothing here talks to a cluster.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from ruamel.yaml import YAML

from sluiceway.cluster.job_archive import JobArchive
from sluiceway.errors import WrongUsageError

SPARK_VERSION = "4.1.4"
_USER = 185
"""User of Spark's own images."""
_JOB_FOLDER = "/etc/sluiceway/job"
_SPARK_FOLDER = "/etc/sluiceway/spark"
_TEMPLATE = "executor-pod.yaml"
_CONTENT = "sluiceway/content"
_LONGEST_NAME = 63
"""Longest name of an object, and longest value of a label."""
_HASH_LENGTH = 8
# Fit for a Secret and for a shell, and different from the other names in the Secret.
_PLAIN_FILE = re.compile(r"(?!file-|env-)[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
_PYTHON = "/opt/sluiceway/bin/python"
_HEALTH_PORT = 8081
_PROBE = (
    "import urllib.request as u; "
    f"u.urlopen('http://127.0.0.1:{_HEALTH_PORT}/healthz', timeout=5).read()"
)
# Facts that only the pod itself knows are added to the settings when it starts.
_START = f"""\
set -e
mkdir -p /tmp/spark-conf
cp {_SPARK_FOLDER}/spark-defaults.conf /tmp/spark-conf/
{{
  echo "spark.driver.host $POD_IP"
  echo "spark.kubernetes.driver.pod.name $POD_NAME"
}} >> /tmp/spark-conf/spark-defaults.conf
export SPARK_CONF_DIR=/tmp/spark-conf SPARK_LOCAL_IP="$POD_IP"
exec /opt/sluiceway/bin/sluiceway run {_JOB_FOLDER}/{{job_file}} --standby --log-format json \
--health-port {_HEALTH_PORT}
"""
_RECIPE = f"""\
# Next to it: the archive of `sluiceway pack --out sluiceway-env.tar.gz`, made on a machine whose C
# library is not newer than that of this image.
FROM apache/spark:{SPARK_VERSION}-scala2.13-java17-ubuntu
USER root
ADD sluiceway-env.tar.gz /opt/sluiceway/
ENV PYSPARK_PYTHON={_PYTHON}
USER {_USER}
"""


@dataclass(frozen=True, slots=True)
class PodChoices:
    """An operator's choices for the pods.

    Attributes:
        image: Image that was built by the recipe.
        namespace: Namespace of all objects.
        replicas: Drivers; all but one are standbys.
        driver_memory: Request and limit, such as `2Gi`.
        driver_cpu: Request, such as `1`.
        service_account: Service account of driver and executors; the manifests create it.
        node_selector: Labels of nodes, for all pods.
        labels: Further labels of all objects and executors.
        tolerations: Tolerations of all pods, as in the API.
    """

    image: str
    namespace: str = "default"
    replicas: int = 2
    driver_memory: str = "2Gi"
    driver_cpu: str = "1"
    service_account: str = "sluiceway"
    node_selector: Mapping[str, str] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()


def image_recipe() -> str:
    """A Dockerfile for driver and executors."""
    return _RECIPE


def render(job: str, archive: JobArchive, choices: PodChoices) -> str:
    """All objects of a job as YAML documents; the Secret among them holds the job's secrets.

    Args:
        job: Name of the job.
        archive: The job file and what it refers to.
        choices: Choices of the operator.
    """
    yaml = YAML()
    yaml.explicit_start = True
    yaml.default_flow_style = False
    text = StringIO()
    for each in objects(job, archive, choices):
        yaml.dump(each, text)
    return text.getvalue()


def objects(job: str, archive: JobArchive, choices: PodChoices) -> list[dict[str, Any]]:
    """As `render`, as plain data, in the order of creation."""
    name = _object_name(job)
    meta = {
        "name": name,
        "namespace": choices.namespace,
        "labels": {**choices.labels, **_own_labels(name)},
    }
    account = {"name": choices.service_account, "namespace": choices.namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": meta,
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["pods", "services", "configmaps", "persistentvolumeclaims"],
                    "verbs": [
                        *("create", "get", "list", "watch", "patch", "delete"),
                        "deletecollection",
                    ],
                }
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": name,
            },
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta,
            "data": {
                "spark-defaults.conf": _spark_defaults(choices),
                **_executor_template(choices),
            },
        },
        {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": _secret(archive)},
        _deployment(name, meta, archive, choices),
    ]


def _object_name(job: str) -> str:
    """A name that the API accepts, and that no other job gets."""
    wanted = f"sluiceway-{job}"
    name = wanted.replace("_", "-").rstrip("-")
    if name == wanted and len(name) <= _LONGEST_NAME:
        return name
    told_apart = hashlib.sha256(job.encode()).hexdigest()[:_HASH_LENGTH]
    kept = name[: _LONGEST_NAME - _HASH_LENGTH - 1].rstrip("-")
    return f"{kept}-{told_apart}"


def _job_file(archive: JobArchive) -> str:
    return archive.name if _PLAIN_FILE.fullmatch(archive.name) else "job.yaml"


def _spark_defaults(choices: PodChoices) -> str:
    settings = {
        "spark.kubernetes.namespace": choices.namespace,
        "spark.kubernetes.container.image": choices.image,
        "spark.kubernetes.authenticate.driver.serviceAccountName": choices.service_account,
        "spark.kubernetes.authenticate.serviceAccountName": choices.service_account,
        "spark.kubernetes.executor.deleteOnTermination": "true",
        "spark.driver.bindAddress": "0.0.0.0",  # noqa: S104 - executors are other pods
        **{
            f"spark.kubernetes.node.selector.{key}": value
            for key, value in (choices.node_selector or {}).items()
        },
        **{
            f"spark.kubernetes.executor.label.{key}": value for key, value in choices.labels.items()
        },
    }
    if choices.tolerations:
        settings["spark.kubernetes.executor.podTemplateFile"] = f"{_SPARK_FOLDER}/{_TEMPLATE}"
    return "".join(f"{key} {value}\n" for key, value in settings.items())


def _executor_template(choices: PodChoices) -> dict[str, str]:
    """Pod template for executors: what Spark has no setting for."""
    if not choices.tolerations:
        return {}
    tolerations = [dict(each) for each in choices.tolerations]
    text = StringIO()
    YAML().dump({"apiVersion": "v1", "kind": "Pod", "spec": {"tolerations": tolerations}}, text)
    return {_TEMPLATE: text.getvalue()}


def _own_labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "sluiceway", "app.kubernetes.io/instance": name}


def _secret(archive: JobArchive) -> dict[str, str]:
    """The job file, and the files that it refers to under names of this Secret."""
    text, files = archive.text, {}
    for number, (path, content) in enumerate(sorted(archive.files.items())):
        files[f"file-{number}"] = content
        text = text.replace(f"${{file:{path}}}", f"${{file:{_JOB_FOLDER}/file-{number}}}")
    variables = {f"env-{name}": value for name, value in archive.variables.items()}
    return {_job_file(archive): text, **files, **variables}


def _deployment(
    name: str, meta: Mapping[str, Any], archive: JobArchive, choices: PodChoices
) -> dict[str, Any]:
    from_field = {"POD_IP": "status.podIP", "POD_NAME": "metadata.name"}
    environment: list[dict[str, Any]] = [
        {"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for key, path in from_field.items()
    ]
    environment += [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": name, "key": f"env-{key}"}}}
        for key in sorted(archive.variables)
    ]
    probe = {"exec": {"command": [_PYTHON, "-c", _PROBE]}, "timeoutSeconds": 10}
    container = {
        "name": "driver",
        "image": choices.image,
        "command": ["/bin/sh", "-c", _START.replace("{job_file}", _job_file(archive))],
        "env": environment,
        "resources": {
            "requests": {"cpu": choices.driver_cpu, "memory": choices.driver_memory},
            "limits": {"memory": choices.driver_memory},
        },
        "startupProbe": {**probe, "periodSeconds": 10, "failureThreshold": 30},
        "livenessProbe": {**probe, "periodSeconds": 60, "failureThreshold": 5},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": _mounts([("job", _JOB_FOLDER), ("spark", _SPARK_FOLDER)]),
    }
    pod: dict[str, Any] = {
        "serviceAccountName": choices.service_account,
        # The last epoch is committed within it.
        "terminationGracePeriodSeconds": 120,
        "securityContext": {"runAsNonRoot": True, "runAsUser": _USER, "fsGroup": _USER},
        "containers": [container],
        "volumes": [
            {"name": "job", "secret": {"secretName": name, "defaultMode": 0o440}},
            {"name": "spark", "configMap": {"name": name}},
        ],
    }
    if choices.node_selector:
        pod["nodeSelector"] = dict(choices.node_selector)
    if choices.tolerations:
        pod["tolerations"] = [dict(each) for each in choices.tolerations]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": dict(meta),
        "spec": {
            "replicas": choices.replicas,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}},
            # An existing Deployment cannot change it, so it has none of the operator's labels.
            "selector": {"matchLabels": _own_labels(name)},
            "template": {
                "metadata": {
                    "labels": dict(meta["labels"]),
                    "annotations": {_CONTENT: _content_mark(name, archive, choices)},
                },
                "spec": pod,
            },
        },
    }


def _content_mark(name: str, archive: JobArchive, choices: PodChoices) -> str:
    """A mark of the contents, so that applying other contents restarts the drivers.

    A driver reads its job file once, and a standby would take over with the old one. The hash is
    slow, so that a reader of the Deployment cannot guess secrets by it.
    """
    content = json.dumps([_secret(archive), _spark_defaults(choices)], sort_keys=True)
    return hashlib.scrypt(content.encode(), salt=name.encode(), n=1 << 14, r=8, p=1, dklen=16).hex()


def _mounts(places: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"name": name, "mountPath": path, "readOnly": True} for name, path in places]


_PAIR = re.compile(r"([A-Za-z0-9][\w./-]*)=([A-Za-z0-9][\w.-]*|)")
_TOLERATION = re.compile(r"([A-Za-z0-9][\w./-]*)(?:=([\w.-]*))?(?::(\w+))?")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Parse labels, each written as `key=value`.

    Args:
        option: Name of the option, for the error.
        texts: The labels, as they were typed.

    Raises:
        WrongUsageError: A text is no such label.
    """
    found = {}
    for text in texts:
        match = _PAIR.fullmatch(text)
        if match is None:
            raise WrongUsageError(
                f"{option} {text!r} is no label", hint=f"write {option} key=value"
            )
        found[match[1]] = match[2]
    return found


def toleration(text: str) -> dict[str, Any]:
    """Parse a toleration in the form of `kubectl taint`.

    `key=value:effect`, `key:effect`, `key=value` or `key`; without an effect all are tolerated.

    Raises:
        WrongUsageError: The text is no toleration.
    """
    match = _TOLERATION.fullmatch(text)
    if match is None or match[3] not in (None, *_EFFECTS):
        raise WrongUsageError(
            f"--toleration {text!r} is none",
            hint=f"write key=value:effect; effects: {', '.join(_EFFECTS)}",
        )
    key, value, effect = match[1], match[2], match[3]
    made: dict[str, Any] = {"key": key, "operator": "Exists" if value is None else "Equal"}
    if value is not None:
        made["value"] = value
    if effect is not None:
        made["effect"] = effect
    return made
