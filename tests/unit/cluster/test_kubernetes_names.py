"""What a job and its file are called, as Kubernetes and a shell take it."""

import re
import stat
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.commands.k8s import _write
from sluiceway.cluster.job_archive import JobArchive
from sluiceway.cluster.kubernetes import PodChoices, objects

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def _objects(job: str, file_name: str = "orders.yaml") -> dict[str, Any]:
    parcel = JobArchive(file_name, "a: ${file:/x}", {"WORD": "w"}, {"/x": "of-a-file"}, {})
    return {each["kind"]: each for each in objects(job, parcel, PodChoices("image:1"))}


def _name(job: str) -> str:
    return str(_objects(job)["Secret"]["metadata"]["name"])


@pytest.mark.parametrize("job", ["a", "a_b", "a-", "a__", "x" * 64, "x" * 53, "x" * 54, "0-_-"])
def test_every_name_of_a_job_makes_a_name_that_the_api_takes(job: str) -> None:
    assert _NAME.fullmatch(_name(job))


def test_jobs_of_two_names_have_objects_of_two_names() -> None:
    jobs = ["a-b", "a_b", "a-b-", "a-b_", "x" * 63, "x" * 64, "x" * 63 + "y"]
    assert len({_name(job) for job in jobs}) == len(jobs)
    assert _name("orders") == "sluiceway-orders"


@pytest.mark.parametrize(
    "file_name", ["my job.yaml", "$(id).yaml", "a;b", "file-0", "env-WORD", "..", "\u00fc.yaml"]
)
def test_file_of_any_name_is_the_one_that_the_driver_runs(file_name: str) -> None:
    found = _objects("orders", file_name)
    secret = found["Secret"]["stringData"]
    assert secret["job.yaml"].startswith("a: ")
    assert (secret["file-0"], secret["env-WORD"]) == ("of-a-file", "w")
    assert all(re.fullmatch(r"[-._a-zA-Z0-9]+", key) for key in secret)
    container = found["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    assert "run /etc/sluiceway/job/job.yaml --standby" in container["command"][2]


def test_manifests_that_others_could_read_are_for_their_owner_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "manifests.yaml").touch(mode=0o644)
    _write(tmp_path, "secret", "recipe")
    assert stat.S_IMODE((tmp_path / "manifests.yaml").stat().st_mode) == 0o600
    assert "secrets" in capsys.readouterr().err


def test_other_job_file_or_secret_starts_the_drivers_anew() -> None:
    def pods(text: str, word: str) -> Any:
        parcel = JobArchive("orders.yaml", text, {"WORD": word}, {}, {})
        deployment = objects("orders", parcel, PodChoices("image:1"))[-1]
        return deployment["spec"]["template"]

    assert pods("a", "w") == pods("a", "w")
    assert pods("a", "w") != pods("b", "w")
    assert pods("a", "w") != pods("a", "v")
