"""`sluiceway k8s`: manifests to run a job on Kubernetes."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.options import JobFile

if TYPE_CHECKING:
    from sluiceway.jobfile.blocks.models import RouteSpec

app = typer.Typer(
    name="k8s", help="Write what Kubernetes needs to run a job.", no_args_is_help=True
)


@app.callback()
def k8s() -> None:
    """Keep `render` a command of its own, even if it is the only one."""


@app.command()
def render(  # noqa: PLR0913, PLR0917 - options of a command
    job_file: JobFile,
    image: Annotated[str, typer.Option("--image", metavar="NAME:TAG", help="Of all pods.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the files are written.")
    ] = Path("k8s"),
    namespace: Annotated[str, typer.Option("--namespace", help="Of all objects.")] = "default",
    replicas: Annotated[
        int, typer.Option("--replicas", min=1, help="Drivers; all but one are standbys.")
    ] = 2,
    service_account: Annotated[
        str, typer.Option("--service-account", help="Of driver and executors; made.")
    ] = "sluiceway",
    driver_memory: Annotated[
        str, typer.Option("--driver-memory", help="Of each driver's pod.")
    ] = "2Gi",
    driver_cpu: Annotated[str, typer.Option("--driver-cpu", help="It asks for so much.")] = "1",
    node_selector: Annotated[
        list[str] | None,
        typer.Option("--node-selector", metavar="KEY=VALUE", help="Nodes of all pods."),
    ] = None,
    toleration: Annotated[
        list[str] | None,
        typer.Option("--toleration", metavar="KEY=VALUE:EFFECT", help="Of all pods."),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Of all objects.")
    ] = None,
) -> None:
    """Write manifests and a Dockerfile; nothing is sent anywhere.

    The job file needs `run.master: k8s://https://kubernetes.default.svc`. The manifests hold the
    job's secrets, in a Secret: protect the file.

    $ sluiceway k8s render orders.yaml --image registry/sluiceway:1
    """
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.cluster.job_archive import collect  # noqa: PLC0415
    from sluiceway.cluster.kubernetes import (  # noqa: PLC0415
        PodChoices,
        image_recipe,
        pairs,
        render,
    )
    from sluiceway.cluster.kubernetes import toleration as toleration_of  # noqa: PLC0415
    from sluiceway.errors import WrongUsageError  # noqa: PLC0415

    spec = load_checked_job(job_file).spec
    if not spec.run.master.startswith("k8s://"):
        raise WrongUsageError(
            f"the job's master is {spec.run.master}, so its pods would start no executors",
            hint="set run.master to k8s://https://kubernetes.default.svc",
        )
    choices = PodChoices(
        image,
        namespace,
        replicas,
        driver_memory,
        driver_cpu,
        service_account,
        pairs("--node-selector", node_selector or ()),
        pairs("--label", label or ()),
        tuple(map(toleration_of, toleration or ())),
    )
    archive = collect(job_file, os.environ, room=spec.routes[0].room)
    _name_login_files(spec.routes[0])
    _write(out, render(spec.name, archive, choices), image_recipe())


def _name_login_files(route: "RouteSpec") -> None:
    """Name the files of the job's Kerberos login that the manifests do not include."""
    from sluiceway.jobfile.compile.stores import job_login  # noqa: PLC0415

    login = job_login(route)
    for path in () if login is None else login.files:
        print(
            f"{path} is not in the manifests: bring it to that place in the image or a volume",
            file=sys.stderr,
        )


def _write(out: Path, text: str, recipe: str) -> None:
    """Write both files, the one with secrets readable for its owner alone, and name them."""
    out.mkdir(parents=True, exist_ok=True)
    manifests = out / "manifests.yaml"
    descriptor = os.open(manifests, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as output:
        # Also for an existing file that others could read.
        os.fchmod(descriptor, 0o600)
        output.write(text)
    (out / "Dockerfile").write_text(recipe)
    for path in (manifests, out / "Dockerfile"):
        print(path)
    print("the manifests hold the job's secrets", file=sys.stderr)
