"""The calls of a metastore that are made, over the structs that `pymetastore` generates.

The generated client has two classes for each of 200 methods; each command that asks a metastore
would load them. A test compares what is here with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymetastore.hive_metastore import ttypes
from thrift.protocol.TBase import TBase
from thrift.Thrift import TApplicationException, TMessageType, TType

_Kind = tuple[int, Any]
"""A type on the wire, and what it is made of."""

_TEXT: _Kind = (TType.STRING, "UTF8")
_FLAG: _Kind = (TType.BOOL, None)
_SHORT: _Kind = (TType.I16, None)


def _struct(kind: Any) -> _Kind:
    return TType.STRUCT, [kind, kind.thrift_spec]


def _list(item: _Kind) -> _Kind:
    return TType.LIST, (*item, False)


_TABLE, _PARTITIONS = _struct(ttypes.Table), _list(_struct(ttypes.Partition))
_DATABASE, _CONTEXT = _struct(ttypes.Database), _struct(ttypes.EnvironmentContext)
_NO_OBJECT, _FAILURE = ttypes.NoSuchObjectException, ttypes.MetaException
_EXISTS, _INVALID = ttypes.AlreadyExistsException, ttypes.InvalidObjectException
_REFUSED = ttypes.InvalidOperationException


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the metastore.

    Attributes:
        takes: Names and types of its arguments, which are numbered from 1.
        gives: Type of its answer; None when it gives none.
        declares: Exceptions by which it refuses, which are numbered from 1.
    """

    takes: tuple[tuple[str, _Kind], ...]
    gives: _Kind | None
    declares: tuple[Any, ...]

    @property
    def argument_spec(self) -> tuple[Any, ...]:
        """As `thrift` describes the struct of the arguments; none stands at 0."""
        told = [
            (number, kind, name, made_of, None)
            for number, (name, (kind, made_of)) in enumerate(self.takes, start=1)
        ]
        return (None, *told)

    @property
    def answer_spec(self) -> tuple[Any, ...]:
        """As `thrift` describes the struct of the answer, which stands at 0."""
        first = None if self.gives is None else (0, self.gives[0], "success", self.gives[1], None)
        told = [
            (number, TType.STRUCT, _refusal_name(number), [kind, kind.thrift_spec], None)
            for number, kind in enumerate(self.declares, start=1)
        ]
        return (first, *told)


def _refusal_name(number: int) -> str:
    """Attribute of an answer that holds one of its exceptions; names do not go over the wire."""
    return f"o{number}"


def _method(takes: Mapping[str, _Kind], gives: _Kind | None, *declares: Any) -> Method:
    return Method(tuple(takes.items()), gives, declares)


_NAMED = {"dbname": _TEXT, "tbl_name": _TEXT}
_OF_TABLE = {"db_name": _TEXT, "tbl_name": _TEXT}

METHODS: Mapping[str, Method] = {
    # Of fb303, which the generated code leaves out.
    "getVersion": _method({}, _TEXT),
    "get_table": _method(_NAMED, _TABLE, _FAILURE, _NO_OBJECT),
    "get_table_req": _method(
        {"req": _struct(ttypes.GetTableRequest)},
        _struct(ttypes.GetTableResult),
        *(_FAILURE, _NO_OBJECT),
    ),
    "get_database": _method({"name": _TEXT}, _DATABASE, _NO_OBJECT, _FAILURE),
    "create_database": _method({"database": _DATABASE}, None, _EXISTS, _INVALID, _FAILURE),
    "create_table": _method({"tbl": _TABLE}, None, _EXISTS, _INVALID, _FAILURE, _NO_OBJECT),
    "alter_table_with_environment_context": _method(
        {**_NAMED, "new_tbl": _TABLE, "environment_context": _CONTEXT}, None, _REFUSED, _FAILURE
    ),
    "drop_table": _method(
        {"dbname": _TEXT, "name": _TEXT, "deleteData": _FLAG}, None, _NO_OBJECT, _FAILURE
    ),
    "get_partition_names": _method(
        {**_OF_TABLE, "max_parts": _SHORT}, _list(_TEXT), _NO_OBJECT, _FAILURE
    ),
    "get_partitions_by_names": _method(
        {**_OF_TABLE, "names": _list(_TEXT)}, _PARTITIONS, _FAILURE, _NO_OBJECT
    ),
    "add_partitions_req": _method(
        {"request": _struct(ttypes.AddPartitionsRequest)},
        _struct(ttypes.AddPartitionsResult),
        *(_INVALID, _EXISTS, _FAILURE),
    ),
    "drop_partition": _method(
        {**_OF_TABLE, "part_vals": _list(_TEXT), "deleteData": _FLAG},
        _FLAG,
        *(_NO_OBJECT, _FAILURE),
    ),
    "alter_partitions_with_environment_context": _method(
        {**_OF_TABLE, "new_parts": _PARTITIONS, "environment_context": _CONTEXT},
        None,
        *(_REFUSED, _FAILURE),
    ),
}


class ThriftCalls:
    """Calls over one connection, one at a time.

    Args:
        protocol: Of `thrift`, over an open transport.
    """

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol

    def ask(self, name: str, *values: Any) -> Any:
        """Call a method and wait for its answer.

        Args:
            name: One of `METHODS`.
            values: All of its arguments, in order.

        Returns:
            What the method gives; None for one that gives nothing.

        Raises:
            Exception: What the method declares, as the generated code's exceptions.
            TApplicationException: The server has no such method, or gives no answer.
            TTransportException: The connection is gone.
        """
        method, protocol = METHODS[name], self._protocol
        protocol.writeMessageBegin(name, TMessageType.CALL, 0)
        _arguments(method, values).write(protocol)
        protocol.writeMessageEnd()
        protocol.trans.flush()
        _, kind, _ = protocol.readMessageBegin()
        if kind == TMessageType.EXCEPTION:
            refused = TApplicationException()
            refused.read(protocol)
            protocol.readMessageEnd()
            raise refused
        answer = _Message(method.answer_spec)
        answer.read(protocol)
        protocol.readMessageEnd()
        return _given(name, method, answer)


class _Message(TBase):  # type: ignore[misc]  # thrift has no types
    """The struct of a call's arguments or of its answer."""

    def __init__(self, spec: Sequence[Any]) -> None:
        self.thrift_spec = spec
        for field in spec:
            if field is not None:
                setattr(self, field[2], None)


def _arguments(method: Method, values: Sequence[Any]) -> _Message:
    message = _Message(method.argument_spec)
    for (name, _), value in zip(method.takes, values, strict=True):
        setattr(message, name, value)
    return message


def _given(name: str, method: Method, answer: _Message) -> Any:
    given = None if method.gives is None else answer.success
    if given is not None:
        return given
    for number in range(1, len(method.declares) + 1):
        refusal = getattr(answer, _refusal_name(number))
        if refusal is not None:
            raise refusal
    if method.gives is not None:
        missing = f"{name} failed: unknown result"
        raise TApplicationException(TApplicationException.MISSING_RESULT, missing)
    return None
