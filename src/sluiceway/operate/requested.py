"""Work on partitions that a route's driver does when asked; without one, this process is it."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from sluiceway.errors import LeaseHeldError, RequestRefusedError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.lease import read_lease
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.log import Log
from sluiceway.operate.short_driver import Heartbeat, short_driver
from sluiceway.route.route_session import RouteSession
from sluiceway.schedule.unit_sql import UnitSql
from sluiceway.types.strict_json import StrictJsonError, decode, loads
from sluiceway.upkeep.partition_requests import UpkeepRequest
from sluiceway.upkeep.requests import RequestRefusal, put_request

_POLL_S = 0.3
_HERE_POLL_S = 0.05
_MOST_REQUESTS = 5


class Progressing(Protocol):
    """An answer that says how far a request is."""

    @property
    def finished(self) -> bool:
        """Whether nothing more will be done."""


AnswerT = TypeVar("AnswerT", bound=Progressing)

Units = Callable[[], UnitSql]
"""Starts what runs the SQL of units."""

Watch = Callable[[AnswerT | None, bool], None]
"""Called with how far it is, None before it begins, and whether another driver does it."""


def carry_out(  # noqa: PLR0913 - what a driver starts with, and the request
    config: RouteConfig,
    ledger: LedgerLog,
    request: UpkeepRequest,
    kind: type[AnswerT],
    watch: Watch[AnswerT],
    log: Log,
    *,
    units: Units | None = None,
) -> AnswerT:
    """Have a request carried out, by the live driver if there is one, else here.

    Safe to end anywhere and to repeat.

    Args:
        config: The route.
        ledger: Its log.
        request: What is asked for.
        kind: Kind of its answer.
        watch: Called with the progress.
        log: Log of this process, when it is the driver.
        units: Starts what runs the SQL of units, when it is the driver; None computes none.

    Returns:
        The last answer.

    Raises:
        RequestRefusedError: The driver does not know such requests, or keeps losing them.
        SluicewayError: As at a driver's start.
    """
    # The answer to an earlier request is void now.
    ledger.storage.remove(ledger.layout.answer(request.id))
    put_request(ledger.storage, ledger.layout, request)
    beats, asked = Heartbeat(), 1
    while True:
        there = ledger.storage.status(ledger.layout.request(request.id)) is not None
        answer = _answer(ledger, request.id, kind)
        if answer is not None and answer.finished and not there:
            ledger.storage.remove(ledger.layout.answer(request.id))
            return answer
        if not there and asked >= _MOST_REQUESTS:
            raise RequestRefusedError(
                "the request is taken away again and again", where=ledger.layout.requests
            )
        if not there:
            # Another process has asked for the same and read the answer: asking again costs little.
            put_request(ledger.storage, ledger.layout, request)
            asked += 1
        lives = beats.heard(read_lease(ledger.storage, ledger.layout.lease))
        watch(answer, lives)
        if lives:
            time.sleep(_POLL_S)
            continue
        try:
            driver = short_driver(config, log, None if units is None else units())
            _carry_out_here(driver, ledger, request, kind, watch)
        except LeaseHeldError:
            # One was started meanwhile: it carries the request out.
            beats = Heartbeat()


def _answer(ledger: LedgerLog, name: str, kind: type[AnswerT]) -> AnswerT | None:
    """How far it is; None before it begins.

    Raises:
        RequestRefusedError: The driver refuses it; says why.
    """
    raw = ledger.storage.read(ledger.layout.answer(name))
    if raw is None:
        return None
    try:
        plain = loads(raw)
        if isinstance(plain, dict) and "finished" in plain:
            return decode(raw, kind)
        message = decode(raw, RequestRefusal).message
    except StrictJsonError as error:
        message = f"the answer cannot be read: {error}"
    ledger.storage.remove(ledger.layout.answer(name))
    raise RequestRefusedError(
        message, hint="is the driver of an older version? Nothing was changed"
    )


def _carry_out_here(
    driver: AbstractContextManager[RouteSession],
    ledger: LedgerLog,
    request: UpkeepRequest,
    kind: type[AnswerT],
    watch: Watch[AnswerT],
) -> None:
    """Fence as a driver would, and put what the work asks for until it is done."""
    with driver as session:
        while ledger.storage.status(ledger.layout.request(request.id)) is not None:
            session.lanes.read_requests()
            if session.committer.is_record_due(None):
                session.committer.pin(None, None)
            else:
                watch(_answer(ledger, request.id, kind), False)  # noqa: FBT003 - no other driver
                time.sleep(_HERE_POLL_S)
