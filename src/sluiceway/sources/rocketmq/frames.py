"""Frames of the remoting protocol: a length, a JSON header, a body."""

import base64
import hashlib
import hmac
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sluiceway.errors import SourceUnavailableError

MAX_FRAME_BYTES: Final = 64 << 20
"""A broker sends at most some MiB in one answer; more is no frame."""
_RESPONSE_FLAG: Final = 1
_JSON: Final = 0
# What a broker takes this client for: a release of its own whose answers are plain.
_CLIENT_VERSION: Final = 399
_SIZES: Final = struct.Struct(">ii")
_MAX_OFFSET_DIGITS: Final = 19
_MAX_OFFSET: Final = 2**63 - 1
_LENGTH_BYTES: Final = 4


class WireError(SourceUnavailableError):
    """What came is not RocketMQ's protocol. The connection it came by is not used again."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A login for brokers that demand signed requests."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of a server.

    Attributes:
        opaque: Number of the request.
        code: See `codes.ResponseCode`.
        remark: What the server says about it, for a person.
        fields: All texts.
    """

    opaque: int
    code: int
    remark: str
    fields: Mapping[str, str]
    body: bytes

    def number(self, name: str) -> int:
        """A field that is an offset.

        Raises:
            WireError: It is missing, or no number from -1 on.
        """
        text = self.fields.get(name, "")
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_OFFSET_DIGITS):
            raise WireError(f"an answer's field {name} is {text[:40]!r}, a number was expected")
        number = int(text)
        if not -1 <= number <= _MAX_OFFSET:
            raise WireError(f"an answer's field {name} is {number}, an offset was expected")
        return number


def request_frame(
    opaque: int, code: int, fields: Mapping[str, object], credentials: Credentials | None
) -> bytes:
    """A request without a body, signed when there is a login.

    The signature is HMAC-SHA1 over the fields' values, in the order of their names.
    """
    texts = {name: _text(value) for name, value in fields.items()}
    if credentials is not None:
        texts["AccessKey"] = credentials.access_key
        if credentials.security_token:
            texts["SecurityToken"] = credentials.security_token
        content = "".join(texts[name] for name in sorted(texts)).encode()
        digest = hmac.new(credentials.secret_key.encode(), content, hashlib.sha1).digest()
        texts["Signature"] = base64.b64encode(digest).decode()
    header = json.dumps(
        {
            "code": int(code),
            "language": "PYTHON",
            "version": _CLIENT_VERSION,
            "opaque": opaque,
            "flag": 0,
            "serializeTypeCurrentRPC": "JSON",
            "extFields": texts,
        }
    ).encode()
    return _SIZES.pack(4 + len(header), len(header)) + header


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_frame(buffer: bytearray) -> bytes | None:
    """Cut the first whole frame off a buffer of received bytes; None when it is not whole yet.

    Returns:
        Header length, header and body.

    Raises:
        WireError: The length cannot be one.
    """
    if len(buffer) < _LENGTH_BYTES:
        return None
    (length,) = struct.unpack_from(">i", buffer)
    if not _LENGTH_BYTES <= length <= MAX_FRAME_BYTES:
        raise WireError(f"a frame of {length} bytes was announced")
    if len(buffer) < _LENGTH_BYTES + length:
        return None
    frame = bytes(memoryview(buffer)[4 : 4 + length])
    del buffer[: 4 + length]
    return frame


def read_reply(frame: bytes) -> Reply | None:
    """Read a frame; None when it is a request of the server's own, which needs no answer.

    Raises:
        WireError: It is no frame of this protocol.
    """
    (mixed,) = struct.unpack_from(">I", frame)
    kind, length = mixed >> 24, mixed & 0xFFFFFF
    if kind != _JSON or 4 + length > len(frame):
        raise WireError(f"a frame has a header of kind {kind} and {length} bytes")
    header = read_json(frame[4 : 4 + length], "a frame's header")
    if not isinstance(header, dict):
        raise WireError("a frame's header is no JSON object")
    numbers = [header.get(name) for name in ("code", "opaque", "flag")]
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in numbers):
        raise WireError(f"a frame's code, opaque and flag are {str(numbers)[:100]}")
    if not header["flag"] & _RESPONSE_FLAG:
        return None
    fields = header.get("extFields") or {}
    if not isinstance(fields, dict):
        raise WireError("a frame's extFields are no JSON object")
    remark = header.get("remark") or ""
    return Reply(
        opaque=header["opaque"],
        code=header["code"],
        remark=_first_line(str(remark)),
        fields={name: str(value) for name, value in fields.items()},
        body=frame[4 + length :],
    )


def read_json(raw: bytes, what: str) -> Any:
    """Parse JSON of a server.

    Raises:
        WireError: It is none; says of what.
    """
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise WireError(f"{what} is no JSON: {str(error)[:100]}") from error


def _first_line(text: str) -> str:
    """Remarks hold whole stack traces."""
    return (text.splitlines() or [""])[0][:300]
