"""The product's own thrift client writes and reads what the generated one does."""

import socket
from typing import Any

import pytest
from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException
from thrift.transport.TTransport import TMemoryBuffer

from sluiceway.catalog.connection import MetastoreCalls
from sluiceway.catalog.thrift_calls import MetastoreMethods
from sluiceway.errors import MetastoreUnavailableError

TABLE = ttypes.Table(tableName="orders", dbName="ods", parameters={"k": "v"})
PARTS = [ttypes.Partition(values=["1"], parameters={"n": "1"})]
CONTEXT = ttypes.EnvironmentContext({"CASCADE": "true"})
SUCCESS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "get_database": (("ods",), ttypes.Database(name="ods")),
    "create_database": ((ttypes.Database(name="ods"),), None),
    "get_table": (("ods", "orders"), TABLE),
    "get_table_req": (
        (ttypes.GetTableRequest(dbName="ods", tblName="orders"),),
        ttypes.GetTableResult(TABLE),
    ),
    "create_table": ((TABLE,), None),
    "alter_table_with_environment_context": (("ods", "orders", TABLE, CONTEXT), None),
    "drop_table": (("ods", "orders", False), None),
    "get_partition_names": (("ods", "orders", 7), ["d=1", "d=2"]),
    "get_partitions_by_names": (("ods", "orders", ["d=1"]), PARTS),
    "add_partitions_req": (
        (ttypes.AddPartitionsRequest("ods", "orders", PARTS, True),),  # noqa: FBT003
        ttypes.AddPartitionsResult(PARTS),
    ),
    "alter_partitions_with_environment_context": (("ods", "orders", PARTS, CONTEXT), None),
    "drop_partition": (("ods", "orders", ["1"], False), True),
}


class _Exchange:
    """A stream whose other end is the generated server."""

    def __init__(self, handler: object) -> None:
        self._handler = handler
        self.asked = TMemoryBuffer()
        self.answered = TMemoryBuffer()

    def write(self, data: bytes) -> None:
        self.asked.write(data)

    def flush(self) -> None:
        sent, back = TMemoryBuffer(self.asked.getvalue()), TMemoryBuffer()
        processor = ThriftHiveMetastore.Processor(self._handler)
        processor.process(TBinaryProtocol(sent), TBinaryProtocol(back))
        self.answered = TMemoryBuffer(back.getvalue())

    def readAll(self, size: int) -> bytes:  # noqa: N802 - thrift's name
        return bytes(self.answered.readAll(size))


class _Handler:
    """Answers one method, and keeps what it was asked."""

    def __init__(self, name: str, answer: object) -> None:
        self.asked: tuple[Any, ...] = ()
        setattr(self, name, self._method)
        self._answer = answer

    def _method(self, *arguments: Any) -> Any:
        self.asked = arguments
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize("name", SUCCESS)
def test_a_server_reads_the_arguments_and_its_answer_comes_back(name: str) -> None:
    arguments, answer = SUCCESS[name]
    handler = _Handler(name, answer)
    found = getattr(MetastoreMethods(TBinaryProtocol(_Exchange(handler))), name)(*arguments)
    assert handler.asked == arguments
    assert found == answer


@pytest.mark.parametrize("name", SUCCESS)
def test_every_declared_exception_is_raised(name: str) -> None:
    arguments, _ = SUCCESS[name]
    declared = getattr(ThriftHiveMetastore, f"{name}_result").thrift_spec[1:]
    assert declared
    for _, _, _, (kind, _), _ in declared:
        methods = MetastoreMethods(TBinaryProtocol(_Exchange(_Handler(name, kind(message="no")))))
        with pytest.raises(kind, match="no"):
            getattr(methods, name)(*arguments)


def test_a_server_without_the_method_is_reported() -> None:
    methods = MetastoreMethods(TBinaryProtocol(_Exchange(object())))
    with pytest.raises(TApplicationException) as refused:
        methods.getVersion()
    assert refused.value.type == TApplicationException.UNKNOWN_METHOD


def test_an_answer_without_a_value_is_an_error() -> None:
    methods = MetastoreMethods(TBinaryProtocol(_Exchange(_Handler("get_table", None))))
    with pytest.raises(TApplicationException, match="get_table: no answer"):
        methods.get_table("ods", "orders")


def test_only_methods_that_are_called_exist() -> None:
    with pytest.raises(AttributeError):
        _ = MetastoreMethods(TBinaryProtocol(TMemoryBuffer())).get_all_databases


def test_refused_connection_is_told_with_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        connection = MetastoreCalls(f"thrift://127.0.0.1:{taken.getsockname()[1]}", 1.0)
        with pytest.raises(MetastoreUnavailableError, match="Connection refused") as told:
            connection.call("read table a.b", lambda client: client)
    assert told.value.hint.startswith("start it, or correct the `uri` of its connection; ")
