"""`sluiceway serve`: a page with all jobs, their hours, dirty rows and ledgers."""

import socket
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.job_folders import job_files_in
from sluiceway.errors import JobFileError, WrongUsageError

if TYPE_CHECKING:
    from sluiceway.console.access import PageAccess
    from sluiceway.console.server import TlsFiles

app = typer.Typer()

PORT = 8090
_EVERY_ADDRESS = ("0.0.0.0", "::", "[::]")  # noqa: S104 - refused
_LEAST_TOKEN = 16


@app.command()
def serve(  # noqa: PLR0913, PLR0917 - the command's options
    jobs: Annotated[
        list[Path],
        typer.Argument(help="Job files, or folders of them.", metavar="JOB...", readable=False),
    ],
    port: Annotated[
        int, typer.Option("--port", help="0 takes a free one.", min=0, max=65535)
    ] = PORT,
    address: Annotated[
        str,
        typer.Option(
            "--address", help="IP address; other machines reach it only with token and TLS."
        ),
    ] = "127.0.0.1",
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="Holds the token that a browser has to bring."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", help="Certificate chain, PEM.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Its key, PEM.")] = None,
    host: Annotated[
        list[str] | None,
        typer.Option("--host", help="A further name of this server; repeatable."),
    ] = None,
    values: Annotated[
        bool, typer.Option("--values", help="Show keys, values and headers of dirty rows too.")
    ] = False,
) -> None:
    """Show jobs in a browser: states now and over the last hour, hours, dirty rows, ledger.

    It only reads what `status`, `partitions`, `dirty` and `ledger` show, again every few seconds,
    whether drivers run or not. Files that are added to a folder or removed are followed. Needs no
    network but the servers of the jobs. Ctrl-C ends it; the jobs go on.

    $ sluiceway serve orders.yaml
    $ sluiceway serve jobs/ --port 8091
    """
    access = _access(address, token_file, host or [])
    tls = _tls(tls_cert, tls_key, required=not access.is_loopback)
    folders = _folders(jobs)

    from sluiceway.cli.views.page_answers import JobFileAnswers, code_document, error_document  # noqa: PLC0415
    from sluiceway.console.app import page_app  # noqa: PLC0415
    from sluiceway.console.server import serve as serve_page  # noqa: PLC0415
    from sluiceway.console.watched_jobs import WatchedJobs  # noqa: PLC0415
    from sluiceway.observe.log import stderr_log  # noqa: PLC0415

    log = stderr_log(level="error")

    def answers() -> list[JobFileAnswers]:
        return [JobFileAnswers(path, log, values=values) for path in _job_files(jobs, folders)]

    with WatchedJobs(answers, error_document, log) as watched:
        serve_page(
            page_app(watched, access, error_document, code_document), access, port, tls, _print_url
        )


def _print_url(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
    if sys.stderr.isatty():
        sys.stderr.write("open it in a browser; Ctrl-C ends it, and no job\n")


def _access(address: str, token_file: Path | None, names: list[str]) -> "PageAccess":
    from sluiceway.console.access import OWN_NAMES, PageAccess, host_name  # noqa: PLC0415

    try:
        place = ip_address(address)
    except ValueError as error:
        raise WrongUsageError(
            f"{address[:60]!r} is no IP address", hint="write one as 127.0.0.1 or 0.0.0.0"
        ) from error
    for name in names:
        if name in _EVERY_ADDRESS:
            raise WrongUsageError(
                f"no browser calls this server `{name}`",
                where=f"--host {name}",
                hint=f"to listen on every address: --address {name}",
            )
    token = None if token_file is None else _token(token_file)
    if place.is_loopback:
        own = OWN_NAMES
    elif token is None:
        raise WrongUsageError(
            "others can reach this address: a token and TLS are needed",
            where=f"--address {place}",
            hint="make a token with `openssl rand -hex 32 > serve.token`, and add --token-file, "
            "--tls-cert and --tls-key; or leave the address at 127.0.0.1",
        )
    else:
        own = frozenset({socket.gethostname().lower()})
    written = f"[{place}]" if ":" in str(place) else str(place)
    return PageAccess(str(place), frozenset({*own, written, *map(host_name, names)}), token)


def _token(path: Path) -> str:
    try:
        token = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no ASCII text"
        raise WrongUsageError(f"the token cannot be read: {why}", where=str(path)) from error
    if len(token) < _LEAST_TOKEN or not token.isprintable() or " " in token:
        raise WrongUsageError(
            f"the token has to be {_LEAST_TOKEN} or more printable characters without spaces",
            where=str(path),
            hint="make one with `openssl rand -hex 32`",
        )
    return token


def _tls(certificate: Path | None, key: Path | None, *, required: bool) -> "TlsFiles | None":
    from sluiceway.console.server import TlsFiles  # noqa: PLC0415

    if certificate is not None and key is not None:
        return TlsFiles(certificate, key)
    if required or certificate is not None or key is not None:
        raise WrongUsageError(
            "--tls-cert and --tls-key are needed, both",
            hint="without them a token and all answers could be read on the wire",
        )
    return None


def _folders(places: list[Path]) -> frozenset[Path]:
    """The places that are folders of job files."""
    for place in places:
        if not place.exists():
            raise JobFileError("no such file or folder", where=str(place), hint="check the path")
        if place.is_dir() and not job_files_in(place):
            raise WrongUsageError("the folder has no file *.yaml", where=str(place))
    return frozenset(place for place in places if place.is_dir())


def _job_files(places: list[Path], folders: frozenset[Path] | None = None) -> list[Path]:
    """The files, and those in the folders now; the page shows a file that cannot be read.

    Args:
        places: Files and folders, as they were typed.
        folders: The places that were folders at the start; None checks the disk.
    """
    folders = _folders(places) if folders is None else folders
    files = (
        path for each in places for path in (job_files_in(each) if each in folders else [each])
    )
    return list({path.absolute(): path for path in files}.values())
