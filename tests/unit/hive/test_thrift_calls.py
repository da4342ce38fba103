"""The calls that we make, beside the generated client of all calls: the same bytes both ways."""

from collections.abc import Mapping
from typing import Any

import pytest
from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from sluiceway.catalog.thrift_calls import METHODS, ThriftCalls

OF_FB303 = "getVersion"
GENERATED = sorted(METHODS.keys() - {OF_FB303})
TABLE = ttypes.Table(
    tableName="clicks",
    dbName="web",
    sd=ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema("used", "string", "wer, 用户")],
        location="/w/clicks",
        numBuckets=-1,
        serdeInfo=ttypes.SerDeInfo("clicks", "a.Serde", {"serialization.format": "1"}),
        sortCols=[ttypes.Order("used", 1)],
        skewedInfo=ttypes.SkewedInfo(["used"], [["a"]]),
    ),
    partitionKeys=[ttypes.FieldSchema("dt", "string")],
    parameters={"k": "v"},
    writeId=7,
)
PARTITION = ttypes.Partition(values=["20261120"], dbName="web", tableName="clicks", sd=TABLE.sd)
CONTEXT = ttypes.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})
DATABASE = ttypes.Database(name="web", description="", parameters={})
NEW_PARTITIONS = ttypes.AddPartitionsRequest("web", "clicks", [PARTITION], ifNotExists=True)

ARGUMENTS: Mapping[str, tuple[Any, ...]] = {
    "get_table": ("web", "clicks"),
    "get_table_req": (ttypes.GetTableRequest("web", "clicks"),),
    "get_database": ("web",),
    "create_database": (DATABASE,),
    "create_table": (TABLE,),
    "alter_table_with_environment_context": ("web", "clicks", TABLE, CONTEXT),
    "drop_table": ("web", "clicks", False),
    "get_partition_names": ("web", "clicks", 5),
    "get_partitions_by_names": ("web", "clicks", ["dt=20261120"]),
    "add_partitions_req": (NEW_PARTITIONS,),
    "drop_partition": ("web", "clicks", ["20261120"], False),
    "alter_partitions_with_environment_context": ("web", "clicks", [PARTITION], CONTEXT),
}
ANSWERS: Mapping[str, Any] = {
    "get_table": TABLE,
    "get_table_req": ttypes.GetTableResult(TABLE),
    "get_database": DATABASE,
    "get_partition_names": ["dt=20261120"],
    "get_partitions_by_names": [PARTITION],
    "add_partitions_req": ttypes.AddPartitionsResult([PARTITION]),
    "drop_partition": True,
}


class Wire(TMemoryBuffer):  # type: ignore[misc]  # thrift has no types
    """Keeps what is written, reads what a server would have answered."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(answer)
        self.asked = b""

    def write(self, buf: bytes) -> None:
        self.asked += buf


@pytest.mark.parametrize("name", GENERATED)
def test_call_sends_the_bytes_that_the_generated_client_sends(name: str) -> None:
    answer = _answered(name, success=ANSWERS.get(name))
    ours, theirs = Wire(answer), Wire(answer)
    given = ThriftCalls(TBinaryProtocolAccelerated(ours)).ask(name, *ARGUMENTS[name])
    client = ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(theirs))
    known = getattr(client, name)(*ARGUMENTS[name])
    assert ours.asked == theirs.asked
    assert given == known == ANSWERS.get(name)


@pytest.mark.parametrize("name", GENERATED)
def test_method_is_described_as_in_the_generated_code(name: str) -> None:
    wanted = getattr(ThriftHiveMetastore, f"{name}_args").thrift_spec
    result = getattr(ThriftHiveMetastore, f"{name}_result").thrift_spec
    # The client sends no default, and how an exception is called is not on the wire.
    assert _wire(METHODS[name].argument_spec) == _wire(wanted)
    assert _wire(METHODS[name].answer_spec) == _wire(result)


@pytest.mark.parametrize("name", GENERATED)
def test_refusal_of_each_declared_kind_is_raised_as_that_kind(name: str) -> None:
    result = getattr(ThriftHiveMetastore, f"{name}_result").thrift_spec
    declared = [field for field in result[1:] if field is not None]
    assert declared
    for field in declared:
        kind = field[3][0]
        wire = Wire(_answered(name, **{field[2]: kind(message="not so")}))
        with pytest.raises(kind, match="not so"):
            ThriftCalls(TBinaryProtocolAccelerated(wire)).ask(name, *ARGUMENTS[name])


def test_method_that_the_server_lacks_is_an_application_exception() -> None:
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin("getVersion", TMessageType.EXCEPTION, 0)
    TApplicationException(TApplicationException.UNKNOWN_METHOD, "no such").write(protocol)
    protocol.writeMessageEnd()
    with pytest.raises(TApplicationException, match="no such"):
        ThriftCalls(TBinaryProtocolAccelerated(Wire(buffer.getvalue()))).ask(OF_FB303)


def test_answer_without_what_is_asked_for_is_an_application_exception() -> None:
    wire = Wire(_answered("get_database"))
    with pytest.raises(TApplicationException, match="unknown result"):
        ThriftCalls(TBinaryProtocolAccelerated(wire)).ask("get_database", "web")


def test_version_is_read_although_the_generated_code_leaves_it_out() -> None:
    answer = b"\x80\x01\x00\x02\x00\x00\x00\x0agetVersion\x00\x00\x00\x00"
    answer += b"\x0b\x00\x00\x00\x00\x00\x053.1.3\x00"
    wire = Wire(answer)
    assert ThriftCalls(TBinaryProtocolAccelerated(wire)).ask(OF_FB303) == "3.1.3"
    assert wire.asked == b"\x80\x01\x00\x01\x00\x00\x00\x0agetVersion\x00\x00\x00\x00\x00"


def _answered(name: str, **parts: Any) -> bytes:
    """What a server sends, by the generated code for servers."""
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocolAccelerated(buffer)
    protocol.writeMessageBegin(name, TMessageType.REPLY, 0)
    result = getattr(ThriftHiveMetastore, f"{name}_result")()
    for part, value in parts.items():
        setattr(result, part, value)
    result.write(protocol)
    protocol.writeMessageEnd()
    return bytes(buffer.getvalue())


def _wire(spec: tuple[Any, ...]) -> list[Any]:
    """Numbers, types and structs of a description."""
    return [None if field is None else (field[0], field[1], field[3]) for field in spec]
