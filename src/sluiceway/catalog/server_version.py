"""A metastore's own word on its version: a method of fb303, which our generated code leaves out."""

import re
from typing import Any

from thrift.Thrift import TApplicationException, TMessageType, TType

_METHOD = "getVersion"
_MAJOR = re.compile(r"(\d+)\.")


def ask_version(client: Any) -> str:
    """Call `getVersion`. Every server before 4 answers `3.0`, whatever it is.

    Raises:
        TApplicationException: The server has no such method.
    """
    out, back = client._oprot, client._iprot  # noqa: SLF001 - the generated client's own streams
    out.writeMessageBegin(_METHOD, TMessageType.CALL, 0)
    out.writeStructBegin("getVersion_args")
    out.writeFieldStop()
    out.writeStructEnd()
    out.writeMessageEnd()
    out.trans.flush()
    _, kind, _ = back.readMessageBegin()
    if kind == TMessageType.EXCEPTION:
        refused = TApplicationException()
        refused.read(back)
        back.readMessageEnd()
        raise refused
    found = ""
    back.readStructBegin()
    while True:
        _, field_type, number = back.readFieldBegin()
        if field_type == TType.STOP:
            break
        if number == 0 and field_type == TType.STRING:
            found = back.readString()
        else:
            back.skip(field_type)
        back.readFieldEnd()
    back.readStructEnd()
    back.readMessageEnd()
    return found


def major_version(text: str) -> int:
    """The first number of a version; 0 when there is none."""
    found = _MAJOR.match(text)
    return int(found[1]) if found else 0
