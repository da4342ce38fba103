"""Two rooms whose topic a mirror copies: where the driver continues in the copy, and the drain.

A row of room a is its number; a row of room b's own producers is 100 and more. The driver in room a
commits rows one by one, and the mirror copies them one by one under other offsets. Room a is lost
at any time, and comes back or not. The driver then continues in room b: at a position that it finds
by the last committed row (a tail), or by the header that each copy has. When room a is back, its
rows that room b never got are drained into the table, or the job returns to the log that it left.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from model.checker import Steps
from model.mutation import Mutation

_OWN = 100


class State(NamedTuple):
    """Everything that survives or is under way.

    Attributes:
        made: Rows of room a.
        end: Committed end in room a's log.
        copied: Position of the mirror.
        copy: Rows of room b's log.
        own: How many of them are room b's own.
        room: Room a: `well`, `lost`, `back` or `gone`.
        switched: The driver is in room b.
        place: Committed end in room b's log.
        mirror_end: First offset that the mirror had not written when others began; -1 before.
        closed: The mirror never continues.
        restarts: How often the mirror began again before its position.
        drained: Room a's rows were drained.
        origin_end: Committed end of room a's log, by the headers of copies.
        table: Row and how often the table has it.
        refused: No position was sure.
        synced: Last row of which the mirror's own translation knows.
        missing: Row of the tail that the copy lacked at the switch; -1 for none.
        halted: The driver has met it.
        home: The job has returned to room a.
        home_place: Committed end in room a's log since then.
    """

    made: int = 0
    end: int = 0
    copied: int = 0
    copy: tuple[int, ...] = ()
    own: int = 0
    room: str = "well"
    switched: bool = False
    place: int = 0
    mirror_end: int = -1
    closed: bool = False
    restarts: int = 0
    drained: bool = False
    origin_end: int = 0
    table: tuple[tuple[int, int], ...] = ()
    refused: bool = False
    synced: int = 0
    missing: int = -1
    halted: bool = False
    home: bool = False
    home_place: int = 0


@dataclass(frozen=True, slots=True)
class RoomBounds:
    """How far the model goes, and what the mirror is like.

    Attributes:
        rows: Of room a.
        own: Rows of room b's producers.
        header: Copies have the offsets of their rows.
        restarts: How often the mirror begins again before its position.
        mirrored_first: The driver in room a commits only what the copy has.
        wrong: The mirror continues, though an operator has confirmed that it never does.
        returns: An operator may switch back to room a's log; nothing is drained.
    """

    rows: int = 4
    own: int = 2
    header: bool = False
    restarts: int = 0
    mirrored_first: bool = False
    wrong: bool = False
    returns: bool = False


@dataclass(frozen=True, slots=True)
class _Rules:
    """How the driver finds its position, and what it allows.

    Attributes:
        match: `last`, `blind` (whether the last pass of the mirror is whole is not looked at),
            `first`, or `sync` (after the last row that the mirror's translation knows).
        before: Rows of others before the position: `counted`, `confirmed` that there are none,
            or `ignored`.
        by_log_end: The mirror end is where the log ends, whoever wrote there.
        closes: A mirror of which the copy was short never continues.
        drain: `closed` when the mirror is closed, `always` or `never`.
        one_origin_end: Copies and drain share the committed end of room a's log.
        trusts_repeats: The driver finds a position by a tail though the mirror repeats rows.
        halts: The driver reads no row that the copy lacked at the switch.
        left: A log that was left for a copy is read again: `whole` when the copy had all that the
            table has, `by tail` wherever the tail is, or `by header` where rows have none.
    """

    match: str = "last"
    before: str = "counted"
    by_log_end: bool = False
    closes: bool = True
    drain: str = "closed"
    one_origin_end: bool = True
    trusts_repeats: bool = False
    halts: bool = True
    left: str = "whole"


_TRUSTED = _Rules(drain="never", before="confirmed", trusts_repeats=True)
_RULES = {
    Mutation.ROOM_MIRROR_REPEATS: _TRUSTED,
    Mutation.ROOM_PARTIAL_COPY: replace(_TRUSTED, match="blind"),
    Mutation.ROOM_OTHERS_IGNORED: _Rules(before="ignored"),
    Mutation.ROOM_FIRST_MATCH: replace(_TRUSTED, match="first"),
    Mutation.ROOM_OFFSET_SYNC: _Rules(match="sync"),
    Mutation.ROOM_LOG_END: _Rules(by_log_end=True),
    Mutation.ROOM_MIRROR_CONTINUES: _Rules(closes=False),
    Mutation.ROOM_MISSING_READ: _Rules(halts=False),
    Mutation.ROOM_REPEATS_CONTINUES: replace(_TRUSTED, closes=False),
    Mutation.ROOM_DRAIN_OPEN: _Rules(drain="always"),
    Mutation.ROOM_TWO_ORIGIN_ENDS: _Rules(one_origin_end=False),
    Mutation.ROOM_LEFT_LOG_BY_TAIL: _Rules(left="by tail"),
    Mutation.ROOM_LEFT_LOG_BY_HEADER: _Rules(left="by header"),
}


class RoomModel:
    """See the module."""

    def __init__(self, bounds: RoomBounds, mutation: Mutation | None = None) -> None:
        self._bounds = bounds
        self._rules = _Rules() if mutation is None else _RULES[mutation]

    def initial(self) -> State:
        return State()

    def canonical(self, state: State) -> State:
        return state

    def steps(self, state: State) -> Steps[State]:
        if state.home:
            yield from self._returned(state)
            return
        yield from self._room_a(state)
        yield from self._mirror(state)
        yield from self._loss(state)
        if state.room != "well":
            if state.own < self._bounds.own:
                yield "row of room b", _own_row(state)
            if not state.switched and not state.refused:
                yield "switch", self._switched(state)
        if state.switched:
            yield from self._room_b(state)

    def _room_a(self, state: State) -> Steps[State]:
        if state.room != "well":
            return
        if state.made < self._bounds.rows:
            yield "row", state._replace(made=state.made + 1)
        most = state.copied if self._bounds.mirrored_first else state.made
        if not state.switched and state.end < min(state.made, most):
            table = _counted(state.table, state.end)
            yield "commit", state._replace(end=state.end + 1, table=table)

    def _mirror(self, state: State) -> Steps[State]:
        if state.room not in ("well", "back") or state.closed:
            return
        if state.copied < state.made:
            copy = (*state.copy, state.copied)
            yield "copy", state._replace(copy=copy, copied=state.copied + 1)
        if state.copied > state.synced:
            yield "sync", state._replace(synced=state.copied)
        if state.restarts < self._bounds.restarts:
            for back in range(state.copied):
                again = state._replace(copied=back, restarts=state.restarts + 1)
                yield f"the mirror begins again at {back}", again

    def _loss(self, state: State) -> Steps[State]:
        if state.room == "well":
            yield "room a is lost", state._replace(room="lost")
        if state.room == "lost":
            yield "room a is back", state._replace(room="back")
            yield "room a is gone", state._replace(room="gone")

    def _room_b(self, state: State) -> Steps[State]:
        header, rules = self._bounds.header, self._rules
        if state.place < len(state.copy) and not state.halted:
            row = state.copy[state.place]
            place = state.place + 1
            if rules.halts and row == state.missing:
                yield "the mirror continues: halt", state._replace(halted=True)
            elif header and row < min(_OWN, state.origin_end):
                yield "drop", state._replace(place=place)
            else:
                origin_end = row + 1 if header and row < _OWN else state.origin_end
                table = _counted(state.table, row)
                read = state._replace(place=place, origin_end=origin_end, table=table)
                yield "read in room b", read
        if state.room != "back":
            return
        if self._bounds.returns:
            place = self._place_at_home(state)
            if place >= 0:
                yield "switch back", state._replace(home=True, home_place=place)
            return
        may_drain = rules.drain == "closed" and (header or state.closed)
        if not state.drained and (may_drain or rules.drain == "always"):
            yield "drain", self._drained(state)
        if not state.closed and not header and rules.drain == "closed":
            yield "an operator closes the mirror", state._replace(closed=True)

    def _drained(self, state: State) -> State:
        # Without headers the copy's last row says what came to room b.
        first = state.origin_end if self._bounds.header else max(state.end, state.copied)
        table = state.table
        for row in range(first, state.made):
            table = _counted(table, row)
        shared = state.made if self._rules.one_origin_end else state.origin_end
        return state._replace(drained=True, table=table, origin_end=max(shared, state.origin_end))

    # The return

    def _returned(self, state: State) -> Steps[State]:
        """Nobody writes in room b any more, and what the mirror brings there is not read."""
        if state.made < self._bounds.rows:
            yield "row", state._replace(made=state.made + 1)
        if state.home_place < state.made:
            table = _counted(state.table, state.home_place)
            yield "read at home", state._replace(home_place=state.home_place + 1, table=table)

    def _place_at_home(self, state: State) -> int:
        """Where the job continues in the log that it has left; -1 where that is refused."""
        if state.place < len(state.copy) or state.halted:
            # The other room reads all of its rows first.
            return -1
        if self._bounds.header:
            # Rows of this log have no header: none of them is a copy.
            return 0 if self._rules.left == "by header" else -1
        if state.missing >= 0 and self._rules.left != "by tail":
            return -1
        if state.place == 0:
            return 0 if state.end == 0 else -1
        last = state.copy[state.place - 1]
        return -1 if last >= _OWN else last + 1

    # The switch

    def _switched(self, state: State) -> State:
        if self._bounds.header:
            return state._replace(switched=True, place=0, origin_end=state.end)
        if self._bounds.restarts and not self._rules.trusts_repeats:
            # No position may be right: an old row of the repeated pass may follow the last one.
            return state._replace(refused=True)
        if state.end == 0:
            return state._replace(switched=True, place=0)
        if self._rules.match == "sync":
            last = state.synced - 1
            known = 0 < state.synced <= state.end and last in state.copy
            place = state.copy.index(last) + 1 if known else 0
            return state._replace(switched=True, place=place)
        found = [at for at, row in enumerate(state.copy) if row == state.end - 1]
        return self._after_match(state, found) if found else self._after_mirror_end(state)

    def _after_match(self, state: State, found: list[int]) -> State:
        rules = self._rules
        place = (found[0] if rules.match == "first" else found[-1]) + 1
        refused = state._replace(refused=True)
        if rules.before == "counted" and place != state.end:
            # More rows than the ledger has: of a mirror that repeats, or of others.
            return refused
        if rules.before == "confirmed" and 0 <= state.mirror_end < place:
            return refused
        passed = set(state.copy[found[0] + 1 : place]) - set(range(state.end))
        if rules.match == "last" and not passed <= set(state.copy[place:]):
            return refused
        closed = state.closed or (self._bounds.restarts > 0 and rules.closes)
        return state._replace(switched=True, place=place, closed=closed)

    def _after_mirror_end(self, state: State) -> State:
        rules, repeats = self._rules, self._bounds.restarts > 0
        short = state.copied < len(state.copy) - state.own
        if not rules.by_log_end and short and not repeats:
            return state._replace(refused=True)
        if rules.by_log_end:
            place = len(state.copy)
        elif state.mirror_end >= 0 and state.room != "lost":
            # Others may have written: no operator can confirm the position.
            return state._replace(refused=True)
        else:
            place = state.mirror_end if state.mirror_end >= 0 else len(state.copy)
        closed = state.closed or (rules.closes and not self._bounds.wrong)
        return state._replace(switched=True, place=place, closed=closed, missing=state.end - 1)

    # What must hold

    def broken(self, state: State) -> str | None:
        if self._bounds.wrong:
            # Rows before it may be there twice: that is what the confirmation was for.
            twice = dict(state.table).get(state.missing, 0) > 1
            return f"DOUBLED: row {state.missing} came after the switch" if twice else None
        for row, times in state.table:
            sure = self._bounds.header or row < state.end or not self._bounds.restarts
            if times > 1 and sure:
                return f"DOUBLED: row {row} is in the table {times} times"
        have = {row for row, _ in state.table}
        if state.home:
            rows = (*range(state.home_place), *(_OWN + row for row in range(state.own)))
            lost = [row for row in rows if row not in have]
            return f"LOST: {lost} were read in neither room" if lost else None
        if not state.switched or state.place < len(state.copy):
            return None
        lost = [row for row in state.copy if row not in have]
        if lost:
            return f"LOST: {lost} are in room b and not in the table"
        whole = state.room == "back" and not state.closed and state.copied == state.made
        lost = [row for row in range(state.made) if row not in have]
        if lost and (state.drained or whole):
            return f"LOST: {lost} are in room a, which is back and was read"
        return None

    def at_rest(self, state: State) -> str | None:
        del state
        return None

    def is_goal(self, state: State) -> bool:
        return state.switched

    def must_reach_goal(self, state: State) -> bool:
        del state
        return False


def _own_row(state: State) -> State:
    begun = len(state.copy) if state.mirror_end < 0 else state.mirror_end
    copy = (*state.copy, _OWN + state.own)
    return state._replace(copy=copy, own=state.own + 1, mirror_end=begun)


def _counted(table: tuple[tuple[int, int], ...], row: int) -> tuple[tuple[int, int], ...]:
    found = dict(table)
    found[row] = found.get(row, 0) + 1
    return tuple(sorted(found.items()))
