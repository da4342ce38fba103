"""`sluiceway lab`: real servers on this machine, for the demo, for tests and to try things."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.options import Output, OutputFormat
from sluiceway.cli.own_command import exports, from_here, own_command
from sluiceway.cli.views.answers import print_document
from sluiceway.cli.views.tables import print_table
from sluiceway.lab.demo_files import orders_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluiceway.lab.lab import LabEndpoints, ServerStatus
    from sluiceway.lab.support import LabProgress, OnProgress

_DEFAULT_FOLDER = Path(".sluiceway/lab")
_UNHEALTHY_EXIT_CODE = 5
_PLAIN_STEP_PERCENT = 25

app = typer.Typer(
    name="lab",
    help="Start, show and end a real Kafka and Hive Metastore on this machine.",
    no_args_is_help=True,
)


FolderOption = Annotated[
    Path,
    typer.Option("--dir", help="The lab's own folder; another folder is another lab."),
]


class FurtherServer(StrEnum):
    """Optional servers of a lab."""

    S3 = "s3"
    HDFS = "hdfs"
    ROCKETMQ = "rocketmq"
    ICEBERG = "iceberg"
    YARN = "yarn"
    KERBEROS = "kerberos"


@app.command()
def up(
    folder: FolderOption = _DEFAULT_FOLDER,
    further: Annotated[
        list[FurtherServer] | None,
        typer.Option(
            "--with", help="Also a store or catalog, RocketMQ, YARN, Kerberos; repeatable."
        ),
    ] = None,
) -> None:
    """Start the servers that do not run, and wait until they answer."""
    from sluiceway.lab.lab import Lab, StoreServer  # noqa: PLC0415 - keeps `--help` quick

    stores = [StoreServer(each.value) for each in further or ()]
    with progress_on_stderr() as on_progress:
        endpoints = Lab(folder, stores=stores).up(on_progress)
    _print_endpoints(endpoints, folder)


@app.command()
def status(
    folder: FolderOption = _DEFAULT_FOLDER,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the state of each server; of a dead one, its log's end. Exit 5 when one is not well."""
    from sluiceway.lab.lab import Lab, ServerState  # noqa: PLC0415 - keeps `--help` quick

    servers = Lab(folder).status()
    if output.is_document:
        print_document({"servers": [_status_fields(server) for server in servers]}, output)
    else:
        _print_status_table(servers)
    if any(server.state in {ServerState.DEAD, ServerState.SILENT} for server in servers):
        raise typer.Exit(_UNHEALTHY_EXIT_CODE)


@app.command()
def down(
    folder: FolderOption = _DEFAULT_FOLDER,
    remove_data: Annotated[
        bool, typer.Option("--remove-data", help="Also remove its topics, tables and logs.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """End the servers of this lab; their data stays for the next `up`."""
    from sluiceway.lab.lab import Lab  # noqa: PLC0415 - keeps `--help` quick

    if remove_data and not yes:
        typer.confirm(f"Remove all topics and tables in {folder}?", abort=True, err=True)
    Lab(folder).down(remove_data=remove_data)
    print("the lab is down", file=sys.stderr)


@contextmanager
def progress_on_stderr() -> Iterator["OnProgress"]:
    """Show a lab's progress: a bar on a terminal, plain lines elsewhere.

    Yields:
        What to pass as `on_progress`.
    """
    if not sys.stderr.isatty():
        yield _PlainProgress().show
        return
    from rich.console import Console  # noqa: PLC0415 - keeps `--help` quick
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    bars = Progress(*columns, console=console, transient=True)
    bar = bars.add_task("")

    def show(progress: "LabProgress") -> None:
        if progress.total_bytes == 0:
            # A bar that waits would be redrawn again and again over the output of others.
            bars.stop()
            console.print(progress.text, markup=False, highlight=False)
            return
        bars.update(
            bar,
            description=progress.text,
            completed=progress.done_bytes,
            total=progress.total_bytes,
        )
        bars.start()

    try:
        yield show
    finally:
        bars.stop()


class _PlainProgress:
    """One line for each step; a download prints each quarter."""

    def __init__(self) -> None:
        self._last_line = ""

    def show(self, progress: "LabProgress") -> None:
        line = progress.text
        if progress.total_bytes:
            percent = 100 * progress.done_bytes // progress.total_bytes
            percent -= percent % _PLAIN_STEP_PERCENT
            line = f"{line}: {percent} % of {progress.total_bytes / 1e6:.0f} MB"
        if line != self._last_line:
            print(line, file=sys.stderr, flush=True)
        self._last_line = line


def _print_endpoints(endpoints: "LabEndpoints", folder: Path) -> None:
    print(f"kafka      {endpoints.bootstrap_servers}")
    print(f"metastore  {endpoints.metastore_uri}")
    print(f"warehouse  {endpoints.warehouse}")
    for line in _store_lines(endpoints):
        print(line)
    option = "" if folder == _DEFAULT_FOLDER else f" --dir {shlex.quote(str(folder))}"
    command, job = own_command(), shlex.quote(from_here(orders_job()))
    python = shlex.quote(from_here(Path(sys.executable)))
    lines = [
        "\nTry next, with the example's orders, or with these addresses in a job file of yours:",
        *exports(endpoints.bootstrap_servers, endpoints.metastore_uri),
        f"{python} -m sluiceway.lab.order_events --topic orders --partitions 4 \\",
        f"  --bootstrap-servers {endpoints.bootstrap_servers}",
        *_rocketmq_lines(endpoints, python),
        f"{command} run {job} --until-caught-up",
        f"{command} verify {job}",
        f"{command} lab status{option}",
        f"{command} lab down{option}",
    ]
    print("\n  ".join(lines), file=sys.stderr)


def _rocketmq_lines(endpoints: "LabEndpoints", python: str) -> "Sequence[str]":
    """How to send messages to the lab's RocketMQ."""
    if endpoints.rocketmq is None:
        return ()
    return (
        f"{python} -m sluiceway.lab.rocketmq_lines --topic clicks \\",
        f"  --name-server {endpoints.rocketmq.name_server} < clicks.jsonl",
    )


def _store_lines(endpoints: "LabEndpoints") -> Iterator[str]:
    """Addresses of the stores, as a job file has them; the secret stays in its file."""
    if endpoints.s3 is not None:
        end = endpoints.s3
        yield f"s3         {end.url}, bucket {end.bucket}, access_key {end.access_key}"
        yield f"           its secret_key: ${{file:{end.secret_file}}}"
    if endpoints.hdfs is not None:
        yield f"hdfs       {endpoints.hdfs.uri}, config_dir {endpoints.hdfs.config_dir}"
    if endpoints.yarn is not None:
        yield f"yarn       {endpoints.yarn.web}, HADOOP_CONF_DIR={endpoints.yarn.config_dir}"
    if endpoints.rocketmq is not None:
        yield f"rocketmq   {endpoints.rocketmq.name_server}"
        yield f"           its own tools: java -cp '{endpoints.rocketmq.jars}/*' \\"
        yield "             org.apache.rocketmq.tools.command.MQAdminStartup"
    if endpoints.realm is not None:
        login = endpoints.realm.login
        yield f"kerberos   {{principal: {login.principal}, keytab: {login.keytab},"
        yield f"           config: {login.config}}}"
        yield f"           metastore's service_principal: {endpoints.realm.service('hive')}"
        yield f"           kafka {endpoints.secured_servers}, sasl.mechanism GSSAPI"
    if endpoints.iceberg is not None:
        yield f"iceberg    rest: {{uri: {endpoints.iceberg.uri}}}"


def _status_fields(server: "ServerStatus") -> dict[str, str | int | None]:
    return {
        "name": server.name,
        "title": server.title,
        "state": server.state.value,
        "pid": server.pid,
        "port": server.port,
        "log_file": str(server.log_file),
        "log_end": server.log_end,
    }


def _print_status_table(servers: "Sequence[ServerStatus]") -> None:
    print_table([("SERVER", "STATE", "PID", "PORT", "LOG"), *map(_status_cells, servers)])
    for server in servers:
        if server.log_end:
            print(f"\n{server.title} is {server.state.value}; the end of its log:")
            print("\n".join(f"  {line}" for line in server.log_end.splitlines()))


def _status_cells(server: "ServerStatus") -> tuple[str, ...]:
    pid, port = str(server.pid or "-"), str(server.port or "-")
    return (server.title, server.state.value, pid, port, str(server.log_file))
