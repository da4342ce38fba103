"""Runs the followers of one route: it owns their turns, pauses, errors and last turn.

The contract is `ledger/follower.py`. The pool of the process gives turns. A follower is never
called twice at once, and never gets a slot that one of its `after` has not passed.
"""

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from sluiceway.errors import Fatal, FencedError, InvariantError, Retriable, SluicewayError
from sluiceway.host.work_pool import Work, WorkPool, process_pool
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.follower import Follower, LogView
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.log import Log

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
PAUSE_GROWS = 2.0
PAUSE_JITTER = 0.2
"""All pauses between two tries of a follower, and their random share."""

LAST_PIECE_S = 5.0
"""How long a running turn is waited for when a route is left."""

_MOST_DATES = 4096
_LEAST_LAG_S = 5.0


@dataclass(frozen=True, slots=True)
class FollowerState:
    """State of a follower, for status.

    Attributes:
        name: Name of the follower.
        place: Slot below which its target is equal to the log.
        behind_slots: Committed slots from there on.
        behind_s: Seconds since the first of them was committed, as far as this driver knows; 0.0
            without any.
        waits_for: Why it does not go on, in words; empty when nothing keeps it.
        lags: Whether it has lagged for longer than an epoch takes. Every follower lags for a
            shorter time after each commit.
    """

    name: str
    place: int
    behind_slots: int
    behind_s: float
    waits_for: str
    lags: bool = False


@dataclass(eq=False, slots=True)
class _Followed:
    follower: Follower
    work: Work | None = None
    pause_s: float = field(default_factory=lambda: FIRST_PAUSE_S)
    rest_due: float | None = 0.0
    trouble: SluicewayError | None = None
    told_bug: str = ""
    owes_hasty: bool = False
    busy: bool = False


@dataclass(slots=True)
class _Dates:
    """When slots were written, as far as this driver knows."""

    known: deque[tuple[int, float]] = field(default_factory=deque)

    def add(self, through: int) -> None:
        if not self.known or self.known[-1][0] < through:
            self.known.append((through, time.monotonic()))
            if len(self.known) > _MOST_DATES:
                self.known.popleft()

    def age_s(self, place: int) -> float:
        """Seconds since the slot was written."""
        for through, at in self.known:
            if through > place:
                return time.monotonic() - at
        return 0.0


class FollowerRunner:
    """Runs the followers of one route, from its START until it is left.

    Args:
        followers: All followers of the route; closed by this.
        ledger: Log of the route, to read.
        log: Log for messages.
        pool: Gives the turns; the pool of the process.
        epoch_s: How long an epoch takes, in seconds.

    Raises:
        InvariantError: Followers wait for each other in a circle, or two have one name.
    """

    def __init__(
        self,
        followers: Sequence[Follower],
        ledger: LedgerLog,
        log: Log,
        pool: WorkPool | None = None,
        epoch_s: float = 0.0,
    ) -> None:
        self._log = ledger
        self._events = log
        self._lag_s = max(_LEAST_LAG_S, epoch_s)
        self._all = {each.name: _Followed(each) for each in in_order(followers)}
        self._changed = threading.Condition()
        self._through = 0
        self._noted = 0
        self._begun = self._closed = self._hasty = self._last = False
        self._dates = _Dates()
        self._failure: Fatal | None = None
        self._crash: BaseException | None = None
        pool = pool or process_pool()
        for each in self._all.values():
            each.work = pool.add(self._turn_of(each), each.follower.connection)

    # For the route's own thread

    def begin(self, fold: Fold) -> None:
        """Set the ledger's state at START, and begin. Called once."""
        for each in self._all.values():
            each.follower.update(fold, 0, again=True)
        with self._changed:
            self._begun = True
            self._through = self._noted = fold.next_seq
            self._dates.add(fold.next_seq)
        self._wake_all()

    def update(self, fold: Fold) -> None:
        """Add what was committed since the last call. Returns at once."""
        since = self._noted
        for each in self._all.values():
            each.follower.update(fold, since)
        with self._changed:
            self._noted = fold.next_seq
            self._through = max(self._through, fold.next_seq)
            self._dates.add(fold.next_seq)
        self._wake_all()

    def hasten(self, *, on: bool = True) -> None:
        """Do all postponed work now, or allow postponing again. Returns at once."""
        with self._changed:
            if self._hasty is on:
                return
            self._hasty = on
        if on:
            self._wake_all()

    def refuse_if_failed(self) -> None:
        """Pass while no follower has ended the route. Makes no call.

        Raises:
            Fatal: The table is gone, or another driver has taken over.
        """
        with self._changed:
            crash, failure = self._crash, self._failure
        if crash is not None:
            raise crash
        if failure is not None:
            raise failure

    def wait_published(self, through: int, timeout_s: float) -> bool:
        """Wait until all rows below a slot are in the table; returns whether they are.

        Raises:
            Fatal: As `refuse_if_failed`.
        """

        def over() -> bool:
            return self._ended() or self._published() >= through

        with self._changed:
            self._changed.wait_for(over, timeout_s)
        self.refuse_if_failed()
        return self.published_through >= through

    def finish(self, timeout_s: float) -> tuple[str, ...]:
        """Give each follower one last turn, in the order of `after`. Called once, at the end.

        A running turn is waited for beyond the time: each of its calls has a limit. Followers of no
        slot get no last turn, and are asked to end.

        Returns:
            Names of the followers that have not caught up.
        """
        with self._changed:
            self._hasty = self._last = True
            for each in self._all.values():
                waits = each.rest_due is not None or each.trouble is not None
                each.owes_hasty = waits and each.follower.follows_slots
                each.pause_s = FIRST_PAUSE_S
        self._wake_all()

        def settled() -> bool:
            # A follower that waits for an operator is not waited for.
            hopeless = {n for n, e in self._all.items() if isinstance(e.trouble, Fatal)}
            return self._ended() or not set(self._left()) - hopeless

        with self._changed:
            if not self._changed.wait_for(settled, timeout_s):
                self._changed.wait_for(lambda: settled() or not self._at_work())
            return self._left()

    def close(self) -> None:
        """End all followers; the next START does what they have not done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        until = time.monotonic() + LAST_PIECE_S
        for each in self._all.values():
            if each.work is not None:
                each.work.end(max(0.0, until - time.monotonic()))
            each.follower.close()

    # For any thread

    @property
    def published_through(self) -> int:
        """Slot below which all rows are in the table."""
        with self._changed:
            return self._published()

    def trouble_of(self, *, publishing: bool) -> SluicewayError | None:
        """The error of the first follower that does not go on; None when none has failed."""
        for each in self._all.values():
            if each.trouble is not None and (each.follower.publishes or not publishing):
                return each.trouble
        return None

    def holds_up(self) -> str:
        """Why no more may be committed now, as a follower says; empty when none does."""
        for each in self._all.values():
            if why := each.follower.holds_up():
                return f"{each.follower.name}: {why}"
        return ""

    def publishing_for_s(self) -> float:
        """Seconds since the first unpublished record was written; 0.0 without one."""
        with self._changed:
            place = self._published()
            return 0.0 if place >= self._through else self._dates.age_s(place)

    def states(self) -> tuple[FollowerState, ...]:
        """States of all followers, in the order of `after`."""
        with self._changed:
            return tuple(self._state(each) for each in self._all.values())

    def _state(self, each: _Followed) -> FollowerState:
        place = min(each.follower.place(), self._through)
        behind = self._through - place
        behind_s = self._dates.age_s(place) if behind else 0.0
        reason, lags = self._reason(each), behind_s > self._lag_s
        return FollowerState(each.follower.name, place, behind, round(behind_s, 1), reason, lags)

    def _reason(self, each: _Followed) -> str:
        said = each.follower.waits()
        if each.trouble is not None:
            return f"{said}: {each.trouble}" if said else str(each.trouble)
        if said:
            return said
        place, limit = each.follower.place(), self._limit(each)
        if place >= limit and limit < self._through:
            first = self._before(each)
            return next((f.follower.name for f in first if f.follower.place() <= limit), "")
        return ""

    # Turns

    def _turn_of(self, each: _Followed) -> Callable[[], float | None]:
        return lambda: self._turn(each)

    def _turn(self, each: _Followed) -> float | None:
        """One turn of one follower, when it has work; returns the seconds until the next."""
        with self._changed:
            over = self._ended if each.follower.follows_slots else self._ended_or_last
            if over() or not self._begun:
                return None
            hasty, before = each.owes_hasty, each.follower.place()
            limit = self._limit(each)
            view = LogView(self._log, limit, self._hasty, self._last, over)
            left_s = self._not_before_s(each)
            if not hasty and left_s != 0.0 and (each.trouble or before >= view.through):
                return left_s
            each.busy = True
        try:
            pause_s = self._followed(each, before, each.follower.follow(view), view)
        except SluicewayError as error:
            pause_s = self._failed(each, error)
        except Exception as error:  # noqa: BLE001 - a bug in one must not end the others
            pause_s = self._failed(each, self._bug(each, error))
        except BaseException as error:  # noqa: BLE001 - handed to the route's thread
            self._crashed(error)
            return None
        finally:
            each.busy = False
        with self._changed:
            if hasty and each.trouble is None:
                each.owes_hasty = False
            self._changed.notify_all()
            if self._ended():
                return None
            # A failed follower is not woken, and counts as failed until a turn has ended well.
            missed = each.trouble is None and view.through < self._limit(each)
            return 0.0 if missed else pause_s

    def _not_before_s(self, each: _Followed) -> float | None:
        """Seconds until its pause is over, or until it wants a call; None when it never does."""
        if each.trouble is None:
            return self._rest_s(each)
        return max(0.0, (each.rest_due or 0.0) - time.monotonic())

    def _followed(self, each: _Followed, before: int, place: int, view: LogView) -> float | None:
        each.trouble, each.told_bug = None, ""
        if place > before:
            each.pause_s = FIRST_PAUSE_S
            self._wake_behind(each)
        rest_s = self._rest_s(each)
        if place >= view.through:
            return rest_s
        if place > before:
            return 0.0
        pause_s = self._next_pause(each)
        return pause_s if rest_s is None else min(pause_s, rest_s)

    def _rest_s(self, each: _Followed) -> float | None:
        rest_s = each.follower.rest_s()
        each.rest_due = None if rest_s is None else time.monotonic() + rest_s
        return rest_s

    def _failed(self, each: _Followed, error: SluicewayError) -> float | None:
        name = each.follower.name
        if isinstance(error, Fatal) and each.follower.owns_table:
            if isinstance(error, FencedError):
                self._events.info("follower_ends", follower=name, error=str(error))
            else:
                self._events.error(
                    "follower_halts", follower=name, code=error.code, error=str(error)
                )
            with self._changed:
                self._failure = self._failure or error
                each.trouble = error
                self._changed.notify_all()
            return None
        pause_s = self._next_pause(each)
        if isinstance(error, Fatal):
            pause_s = each.pause_s = _jittered(LONGEST_PAUSE_S)
        # Nothing is due before its pause is over, whatever is committed meanwhile.
        each.trouble, each.rest_due = error, time.monotonic() + pause_s
        self._events.warning(
            "follower_blocked",
            follower=name,
            code=error.code,
            error=str(error),
            retry_in_s=round(pause_s, 1),
        )
        return pause_s

    def _bug(self, each: _Followed, error: Exception) -> SluicewayError:
        """Log a bug once with its stack; its text is not ours and may hold a secret."""
        what = type(error).__name__
        if what != each.told_bug:
            each.told_bug = what
            stack = "".join(traceback.format_exception(error))
            self._events.error("follower_bug", follower=each.follower.name, stack=stack)
        return Retriable(f"a bug: {what}", hint="the log has its stack; please report it")

    def _crashed(self, error: BaseException) -> None:
        """The process ends: wake all waiting threads, and stop all work."""
        with self._changed:
            self._crash = self._crash or error
            self._changed.notify_all()

    def _next_pause(self, each: _Followed) -> float:
        pause_s = _jittered(each.pause_s)
        each.pause_s = min(each.pause_s * PAUSE_GROWS, LONGEST_PAUSE_S)
        return pause_s

    # Places; called with the lock held

    def _before(self, each: _Followed) -> list[_Followed]:
        return [self._all[name] for name in each.follower.after if name in self._all]

    def _limit(self, each: _Followed) -> int:
        places = [one.follower.place() for one in self._before(each)]
        return min([self._through, *places])

    def _published(self) -> int:
        places = [e.follower.place() for e in self._all.values() if e.follower.publishes]
        return min([self._through, *places])

    def _left(self) -> tuple[str, ...]:
        return tuple(
            name
            for name, each in self._all.items()
            if each.follower.follows_slots
            and (each.owes_hasty or each.follower.place() < self._through)
        )

    def _at_work(self) -> bool:
        return any(each.busy and each.follower.follows_slots for each in self._all.values())

    def _ended(self) -> bool:
        return self._closed or self._failure is not None or self._crash is not None

    def _ended_or_last(self) -> bool:
        return self._last or self._ended()

    def _wake_all(self) -> None:
        for each in self._all.values():
            self._wake(each)

    def _wake_behind(self, before: _Followed) -> None:
        for each in self._all.values():
            if before.follower.name in each.follower.after:
                self._wake(each)

    def _wake(self, each: _Followed) -> None:
        # A failed follower is in its pause; the last turn gives it a try of its own.
        if each.work is not None and (each.trouble is None or each.owes_hasty):
            each.work.wake()


def _jittered(pause_s: float) -> float:
    share = uuid4().int % 1000 / 1000
    return pause_s * (1.0 + PAUSE_JITTER * (2 * share - 1.0))


def in_order(followers: Sequence[Follower]) -> list[Follower]:
    """Followers in order: each after the ones that must pass a slot first; else as given.

    Raises:
        InvariantError: Followers wait for each other in a circle, or two have one name.
    """
    left = {each.name: each for each in followers}
    if len(left) != len(followers):
        raise InvariantError(f"two followers of {[each.name for each in followers]} have one name")
    ordered: list[Follower] = []
    while left:
        free = [each for each in left.values() if not any(name in left for name in each.after)]
        if not free:
            raise InvariantError(f"the followers {', '.join(left)} wait for each other")
        for each in free:
            ordered.append(left.pop(each.name))
    return ordered
