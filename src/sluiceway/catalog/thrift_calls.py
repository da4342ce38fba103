"""The methods of a metastore that the product calls, as a thrift client of its own.

The generated client has all methods, in a module of 48,801 lines: importing it takes longer than a
short command may. The structures are those of the generated `ttypes`.
"""

from functools import cache
from typing import Any, NamedTuple

from pymetastore.hive_metastore import ttypes
from thrift.protocol.TBase import TBase
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.TRecursive import fix_spec

_Type = tuple[int, Any]
"""What thrift has for a type: its number, and what it holds."""

_TEXT: _Type = (TType.STRING, "UTF8")
_FLAG: _Type = (TType.BOOL, None)
_SHORT: _Type = (TType.I16, None)
_TABLE = (_TEXT, _TEXT)


def _struct(kind: type) -> _Type:
    return TType.STRUCT, [kind, None]


def _list_of(element: _Type) -> _Type:
    return TType.LIST, (*element, False)


class _Method(NamedTuple):
    """A method of the service `ThriftHiveMetastore` in the IDL of Hive.

    Attributes:
        arguments: Their types; the first has the number 1.
        answer: Its type; None for a method without one.
        errors: The exceptions that it declares; the first has the number 1.
    """

    arguments: tuple[_Type, ...]
    answer: _Type | None
    errors: tuple[type, ...]


_METHODS = {
    "getVersion": _Method((), _TEXT, (ttypes.MetaException,)),
    "get_database": _Method(
        (_TEXT,),
        _struct(ttypes.Database),
        (ttypes.NoSuchObjectException, ttypes.MetaException),
    ),
    "create_database": _Method(
        (_struct(ttypes.Database),),
        None,
        (ttypes.AlreadyExistsException, ttypes.InvalidObjectException, ttypes.MetaException),
    ),
    "get_table": _Method(
        _TABLE, _struct(ttypes.Table), (ttypes.MetaException, ttypes.NoSuchObjectException)
    ),
    "get_table_req": _Method(
        (_struct(ttypes.GetTableRequest),),
        _struct(ttypes.GetTableResult),
        (ttypes.MetaException, ttypes.NoSuchObjectException),
    ),
    "create_table": _Method(
        (_struct(ttypes.Table),),
        None,
        (
            ttypes.AlreadyExistsException,
            ttypes.InvalidObjectException,
            ttypes.MetaException,
            ttypes.NoSuchObjectException,
        ),
    ),
    "alter_table_with_environment_context": _Method(
        (*_TABLE, _struct(ttypes.Table), _struct(ttypes.EnvironmentContext)),
        None,
        (ttypes.InvalidOperationException, ttypes.MetaException),
    ),
    "drop_table": _Method(
        (*_TABLE, _FLAG), None, (ttypes.NoSuchObjectException, ttypes.MetaException)
    ),
    "get_partition_names": _Method(
        (*_TABLE, _SHORT),
        _list_of(_TEXT),
        (ttypes.NoSuchObjectException, ttypes.MetaException),
    ),
    "get_partitions_by_names": _Method(
        (*_TABLE, _list_of(_TEXT)),
        _list_of(_struct(ttypes.Partition)),
        (ttypes.MetaException, ttypes.NoSuchObjectException),
    ),
    "add_partitions_req": _Method(
        (_struct(ttypes.AddPartitionsRequest),),
        _struct(ttypes.AddPartitionsResult),
        (ttypes.InvalidObjectException, ttypes.AlreadyExistsException, ttypes.MetaException),
    ),
    "alter_partitions_with_environment_context": _Method(
        (
            *_TABLE,
            _list_of(_struct(ttypes.Partition)),
            _struct(ttypes.EnvironmentContext),
        ),
        None,
        (ttypes.InvalidOperationException, ttypes.MetaException),
    ),
    "drop_partition": _Method(
        (*_TABLE, _list_of(_TEXT), _FLAG),
        _FLAG,
        (ttypes.NoSuchObjectException, ttypes.MetaException),
    ),
}


@cache
def _structures(name: str) -> tuple[type[TBase], type[TBase]]:
    """Structures of a call and of its answer, as the generated client has them."""
    method = _METHODS[name]
    arguments = [_field(n, f"a{n}", kind) for n, kind in enumerate(method.arguments, 1)]
    errors = [_field(n, f"o{n}", _struct(error)) for n, error in enumerate(method.errors, 1)]
    success = None if method.answer is None else _field(0, "success", method.answer)
    return _structure((None, *arguments)), _structure((success, *errors))


def _field(number: int, name: str, kind: _Type) -> tuple[int, int, str, Any, None]:
    return number, kind[0], name, kind[1], None


def _structure(spec: tuple[Any, ...]) -> type[TBase]:
    fields = dict.fromkeys(each[2] for each in spec if each is not None)
    made = type("Structure", (TBase,), {**fields, "thrift_spec": spec})
    fix_spec([made])
    return made


class MetastoreMethods:
    """Calls methods by name, as the generated client does: `methods.get_table("ods", "orders")`.

    For one thread at a time.

    Args:
        protocol: Over an open transport.
    """

    def __init__(self, protocol: TBinaryProtocol) -> None:
        self._protocol = protocol

    def __getattr__(self, name: str) -> Any:
        """The method.

        Raises:
            AttributeError: The product does not call it.
        """
        if name not in _METHODS:
            raise AttributeError(name)
        return lambda *arguments: self._call(name, arguments)

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Send the call and read its answer.

        Raises:
            Exception: A declared error, or an error of thrift.
        """
        call_type, answer_type = _structures(name)
        call = call_type()
        for (_, _, field, _, _), value in zip(call_type.thrift_spec[1:], arguments, strict=True):
            setattr(call, field, value)
        wire = self._protocol
        wire.writeMessageBegin(name, TMessageType.CALL, 0)
        call.write(wire)
        wire.writeMessageEnd()
        wire.trans.flush()
        _, kind, _ = wire.readMessageBegin()
        answer: Any = TApplicationException() if kind == TMessageType.EXCEPTION else answer_type()
        answer.read(wire)
        wire.readMessageEnd()
        if kind == TMessageType.EXCEPTION:
            raise answer
        for field in answer_type.thrift_spec[1:]:
            if (error := getattr(answer, field[2])) is not None:
                raise error
        if _METHODS[name].answer is None:
            return None
        if answer.success is None:
            raise TApplicationException(TApplicationException.MISSING_RESULT, f"{name}: no answer")
        return answer.success
