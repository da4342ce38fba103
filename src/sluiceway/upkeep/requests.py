"""Requests of tools to the driver that runs a route (P8): exclusive puts under `requests/`.

They are mail, never truth. A request's name is made of what it asks for, so that asking again is
the same request. The ledger says what was done of it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sluiceway.errors import StorageRefusedError
from sluiceway.ledger.lane_records import LaneRange, LaneRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.storage.contract import FileStatus, Storage
from sluiceway.types.strict_json import StrictJsonError, decode, encode, loads
from sluiceway.upkeep.partition_requests import (
    BACKFILL,
    COMPACT,
    FORGET,
    BackfillRequest,
    CompactRequest,
    ForgetRequest,
    UpkeepRequest,
    request_id,
)

REQUEST_VERSION = 1
MOST_RANGES = 10_000
_MOST_BYTES = 16 << 20
_NAME = re.compile(r"(?P<name>[0-9a-f]{32})\.json")
# The second form is an answer that was still being written.
_ANSWER = re.compile(r"[0-9a-f]{32}\.answer\.json|\.[0-9a-f]{32}\.answer\.json\.[0-9a-f]{32}\.tmp")


@dataclass(frozen=True, slots=True)
class LaneRequest:
    """Dirty rows to be replayed or purged, or late ones to be brought in.

    Attributes:
        version: Version of the request's form.
        ledger: Uuid of the ledger that the rows are of.
        kind: `replay`, `purge` or `late`.
        operator: `user@host`.
        reason: In the operator's words.
    """

    version: int
    ledger: str
    kind: str
    operator: str
    reason: str
    ranges: tuple[LaneRange, ...]

    @property
    def id(self) -> str:
        """The same for the same rows and kind, whoever asks."""
        return request_id(replace(self, operator="", reason=""))

    def record(self) -> LaneRecord:
        """What opens its lane."""
        return LaneRecord(self.id, self.kind, self.operator, self.reason, self.ranges)


Request = LaneRequest | UpkeepRequest
"""What a tool may ask for."""


@dataclass(frozen=True, slots=True)
class RequestRefusal:
    """Why a driver does not do what was asked for."""

    message: str


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A request file.

    Attributes:
        name: Id of the request, by the file's name.
        request: None when it cannot be read.
    """

    name: str
    request: Request | None
    problem: str = ""


def put_request(storage: Storage, layout: LedgerLayout, request: Request) -> None:
    """Ask the route's driver. Safe to repeat.

    Raises:
        StorageUnavailableError: The store failed; repeat.
    """
    storage.make_folders(layout.requests)
    storage.make_folders(layout.stage)
    path = layout.request(request.id)
    storage.put_if_absent(path, encode(request), tmp_folder=layout.stage)


def read_requests(storage: Storage, layout: LedgerLayout) -> Iterator[RequestFile]:
    """All requests that lie there now, in name order. Other files there are left alone.

    Raises:
        StorageUnavailableError: The store failed.
    """
    for status in storage.list(layout.requests):
        named = _NAME.fullmatch(status.path.rpartition("/")[2])
        if named is None or status.is_dir:
            continue
        request_file = _opened(storage, status, named["name"])
        if request_file is not None:
            yield request_file


def _opened(storage: Storage, status: FileStatus, name: str) -> RequestFile | None:
    """A request file; None when it is gone."""
    if status.size_bytes > _MOST_BYTES:
        return RequestFile(name, None, f"it has {status.size_bytes:,} bytes")
    try:
        raw = storage.read(status.path)
    except StorageRefusedError as error:
        # A request that may not be read does not block the others.
        return RequestFile(name, None, f"it cannot be read: {error.message}")
    return None if raw is None else _request_file(name, raw)


def _request_file(name: str, raw: bytes) -> RequestFile:
    try:
        request = _decoded(raw)
    except StrictJsonError as error:
        return RequestFile(name, None, f"it cannot be read: {error}")
    if request.version != REQUEST_VERSION:
        return RequestFile(name, None, f"it is of version {request.version}, not {REQUEST_VERSION}")
    if request.id != name:
        return RequestFile(name, None, "its name is not that of what it asks for")
    return RequestFile(name, request)


def _decoded(raw: bytes) -> Request:
    plain = loads(raw)
    kind = plain.get("kind") if isinstance(plain, dict) else None
    if kind == COMPACT:
        return decode(raw, CompactRequest)
    if kind == FORGET:
        return decode(raw, ForgetRequest)
    if kind == BACKFILL:
        return decode(raw, BackfillRequest)
    return decode(raw, LaneRequest)


def put_answer(storage: Storage, layout: LedgerLayout, name: str, message: str) -> None:
    """Refuse a request: say why, then take it away.

    Raises:
        StorageUnavailableError: The store failed; repeat.
    """
    storage.overwrite(layout.answer(name), encode(RequestRefusal(message)))
    storage.remove(layout.request(name))


def pop_refusal(storage: Storage, layout: LedgerLayout, name: str) -> str | None:
    """Why a request was refused; None when it was not. The answer is taken away.

    Raises:
        StorageUnavailableError: The store failed.
    """
    raw = storage.read(layout.answer(name))
    if raw is None:
        return None
    storage.remove(layout.answer(name))
    try:
        return decode(raw, RequestRefusal).message
    except StrictJsonError as error:
        return f"the answer cannot be read: {error}"


def drop_answers(storage: Storage, layout: LedgerLayout) -> int:
    """Take away what lies there of answers: an earlier driver gave them. How many there were.

    Called once by each driver, before it answers anything itself. Who asked an earlier driver and
    still waits finds neither request nor answer, and reports that: a refusal changed nothing.

    Raises:
        StorageUnavailableError: The store failed; what is left is for the next driver.
    """
    found = [
        status.path
        for status in storage.list(layout.requests)
        if _ANSWER.fullmatch(status.path.rpartition("/")[2]) and not status.is_dir
    ]
    for path in found:
        storage.remove(path)
    return len(found)
