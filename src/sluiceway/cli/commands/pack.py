"""`sluiceway pack`: this Python environment as one archive for a cluster."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sluiceway.cli.options import Output, OutputFormat
from sluiceway.cli.views.answers import print_document

app = typer.Typer()

_MIB = 1 << 20


@app.command()
def pack(
    out: Annotated[
        Path, typer.Option("--out", metavar="ARCHIVE", help="Where it is written.")
    ] = Path("sluiceway-env.tar.gz"),
    output: Output = OutputFormat.TABLE,
) -> None:
    """Write an archive of the interpreter, this program, its plug-ins and all that they need.

    A cluster unpacks it for each executor, so that its machines need neither Python nor packages.
    The same environment gives the same bytes. `submit` makes one by itself.

    $ sluiceway pack --out sluiceway-env.tar.gz
    """
    from sluiceway.cluster.environment_pack import pack_environment  # noqa: PLC0415

    made = pack_environment(out)
    if output.is_document:
        print_document(
            {
                "path": str(made.path),
                "sha256": made.sha256,
                "size_bytes": made.size_bytes,
                "packages": dict(made.packages),
            },
            output,
        )
        return
    print(f"{made.sha256}  {made.path}")
    print(f"{made.size_bytes / _MIB:.0f} MiB, {len(made.packages)} packages", file=sys.stderr)
