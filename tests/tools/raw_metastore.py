"""The metastore as another program uses it: generated thrift, nothing of the package."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

_PARQUET = "org.apache.hadoop.hive.ql.io.parquet."
_ORC = "org.apache.hadoop.hive.ql.io.orc."
FORMATS = {
    "parquet": (
        f"{_PARQUET}serde.ParquetHiveSerDe",
        f"{_PARQUET}MapredParquetInputFormat",
        f"{_PARQUET}MapredParquetOutputFormat",
    ),
    "rcfile": (
        "org.apache.hadoop.hive.serde2.columnar.LazyBinaryColumnarSerDe",
        "org.apache.hadoop.hive.ql.io.RCFileInputFormat",
        "org.apache.hadoop.hive.ql.io.RCFileOutputFormat",
    ),
    "text": (
        "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
        "org.apache.hadoop.mapred.TextInputFormat",
        "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
    ),
    "orc": (f"{_ORC}OrcSerde", f"{_ORC}OrcInputFormat", f"{_ORC}OrcOutputFormat"),
}


@contextmanager
def raw_client(uri: str) -> Iterator[Any]:
    """A connected thrift client of `thrift://host:port`."""
    host, _, port = uri.removeprefix("thrift://").rpartition(":")
    transport = TBufferedTransport(TSocket(host, int(port)))
    transport.open()
    try:
        yield ThriftHiveMetastore.Client(TBinaryProtocol(transport))
    finally:
        transport.close()


def storage(
    location: str | None, columns: Sequence[tuple[str, str]], *, format_name: str = "parquet"
) -> Any:
    """Thrift description of how rows are stored."""
    serde, reader, writer = FORMATS[format_name]
    return ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema(name, kind, "") for name, kind in columns],
        location=location,
        inputFormat=reader,
        outputFormat=writer,
        compressed=False,
        numBuckets=-1,
        serdeInfo=ttypes.SerDeInfo(name="x", serializationLib=serde, parameters={}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


@contextmanager
def proxy_without(uri: str, methods: Sequence[str]) -> Iterator[str]:
    """URI of a metastore that does not know `methods` and asks the one at `uri` for the rest."""
    with raw_client(uri) as client:
        processor = ThriftHiveMetastore.Processor(_OneAtATime(client))
        for method in methods:
            del processor._processMap[method]
        with served(processor) as server:
            yield server.uri


@contextmanager
def proxy_that_keeps_types(uri: str) -> Iterator[str]:
    """URI of a metastore as the one at `uri`, but with Hive's own default for types of columns."""
    with raw_client(uri) as client:
        processor = ThriftHiveMetastore.Processor(_OneAtATime(_Strict(client)))
        with served(processor) as server:
            yield server.uri


class _Strict:
    """A metastore with `hive.metastore.disallow.incompatible.col.type.changes`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def alter_table_with_environment_context(
        self, database: str, name: str, table: Any, context: Any
    ) -> None:
        held = self._client.get_table(database, name).sd.cols
        changed = [a.name for a, b in zip(held, table.sd.cols, strict=False) if a.type != b.type]
        if changed:
            raise ttypes.InvalidOperationException(
                "The following columns have types incompatible with the existing columns in their "
                f"respective positions :\n{','.join(changed)}"
            )
        self._client.alter_table_with_environment_context(database, name, table, context)


class _OneAtATime:
    """A client that several connections are answered by."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        ask = getattr(self._client, name)

        def call(*arguments: Any) -> Any:
            with self._lock:
                return ask(*arguments)

        return call


@dataclass(frozen=True, slots=True)
class ServedMetastore:
    """A metastore of a test's own.

    Attributes:
        port: On loopback.
        accepted: Its connections, the ended ones too.
    """

    port: int
    accepted: list[socket.socket] = field(default_factory=list)

    @property
    def uri(self) -> str:
        """Its address."""
        return f"thrift://127.0.0.1:{self.port}"


@contextmanager
def served(processor: Any, port: int = 0) -> Iterator[ServedMetastore]:
    """Answer by a processor of thrift, each connection in a thread, at a free port or this one."""
    with socket.create_server(("127.0.0.1", port)) as server:
        found = ServedMetastore(server.getsockname()[1])
        accepted = found.accepted

        def serve() -> None:
            try:
                while True:
                    accepted.append(server.accept()[0])
                    arguments = (processor, accepted[-1])
                    threading.Thread(target=_answer_all, args=arguments, daemon=True).start()
            except OSError:
                return  # the server's socket was shut down

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in accepted:
                # The other side may have closed it.
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _answer_all(processor: Any, accepted: socket.socket) -> None:
    wire = TSocket()
    wire.setHandle(accepted)
    transport = TBufferedTransport(wire)
    protocol = TBinaryProtocol(transport)
    try:
        while True:
            processor.process(protocol, protocol)
    except (TTransportException, OSError):
        transport.close()
