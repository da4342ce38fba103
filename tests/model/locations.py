"""One partition of the table: DATA beside REPLACE, its folder in the metastore, late calls.

A driver commits DATA, one row each; a compaction reads the live folder, writes a folder of its
own and commits REPLACE, which moves the partition there. Both compute a record from the fold
before its slot and test it again after each lost slot. Publishing, metastore calls and the
removal of old folders come late and in any order, as from a driver that died.

A SNAPSHOT may seal the partition: where it is is forgotten then, and rows that still come go aside.
"""

from dataclasses import dataclass
from typing import NamedTuple

from model.checker import Steps
from model.mutation import Mutation

_NOWHERE = -1
_ASIDE = 8
_SEALED = 9


class Record(NamedTuple):
    """DATA of one row in `folder`, or REPLACE (`is_replace`) of `rows` by a copy in `folder`.

    DATA without rows, in the folder `_SEALED`, is the SNAPSHOT that seals the partition.
    """

    is_replace: bool
    rows: tuple[int, ...]
    folder: int


class Put(NamedTuple):
    """A record on its way, or waiting to be read back; slot -1 when there is none."""

    slot: int
    record: Record


class State(NamedTuple):
    """Everything that survives or is under way.

    Attributes:
        planned: Folder of the staged row as known when it was planned; -1 when none is staged.
        data: The driver's put.
        read: Rows that the compaction has read and copied.
        replace: The compaction's put.
        in_flight: Requests to the log: 0 the driver's, 1 the compaction's.
        files: (folder, row) that exist.
        shown: Folder that the metastore shows.
        calls: Metastore calls under way, by folder.
        called: Slots whose own call was made (only used when each record makes one).
        removals: Removals of old folders under way.
        gone: Folders that were removed.
    """

    log: tuple[Record, ...]
    planned: int
    data: Put
    read: tuple[int, ...]
    replace: Put
    in_flight: tuple[int, ...]
    files: tuple[tuple[int, int], ...]
    shown: int
    calls: tuple[int, ...]
    called: tuple[int, ...]
    removals: tuple[int, ...]
    gone: tuple[int, ...]


_SEAL = Record(is_replace=False, rows=(), folder=_SEALED)
_NO_PUT = Put(_NOWHERE, Record(is_replace=False, rows=(), folder=0))


@dataclass(frozen=True, slots=True)
class LocationBounds:
    """How far the model goes.

    Attributes:
        rows: DATA records, one row each.
        replaces: REPLACE records.
        seals: Whether a SNAPSHOT may seal the partition.
    """

    rows: int = 2
    replaces: int = 1
    seals: bool = False


class LocationModel:
    """See the module."""

    def __init__(self, bounds: LocationBounds, mutation: Mutation | None = None) -> None:
        self._bounds = bounds
        self._mutation = mutation

    def initial(self) -> State:
        return State(
            log=(),
            planned=_NOWHERE,
            data=_NO_PUT,
            read=(),
            replace=_NO_PUT,
            in_flight=(),
            files=(),
            shown=_NOWHERE,
            calls=(),
            called=(),
            removals=(),
            gone=(),
        )

    def canonical(self, state: State) -> State:
        """Sets in order."""
        return state._replace(
            in_flight=tuple(sorted(state.in_flight)),
            files=tuple(sorted(state.files)),
            calls=tuple(sorted(state.calls)),
            called=tuple(sorted(state.called)),
            removals=tuple(sorted(state.removals)),
            gone=tuple(sorted(state.gone)),
        )

    def steps(self, state: State) -> Steps[State]:
        yield from self._data(state)
        yield from self._compaction(state)
        yield from self._seal(state)
        yield from self._requests(state)
        yield from self._publish(state)
        yield from self._metastore(state)
        yield from self._removals(state)

    # Records

    def _data(self, state: State) -> Steps[State]:
        folder, put, tail = self._next_folder(state.log), state.data, len(state.log)
        if state.planned == _NOWHERE:
            if _rows(state.log) < self._bounds.rows:
                yield "plan", state._replace(planned=folder)
            return
        if put == _NO_PUT:
            chosen = state.planned if self._mutation is Mutation.FOLDER_AT_PLAN_TIME else folder
            row = (_rows(state.log),)
            record = Record(is_replace=False, rows=row, folder=chosen)
            yield "put DATA", _sent(state._replace(data=Put(tail, record)), 0)
        elif put.slot < tail and state.log[put.slot] == put.record:
            yield "DATA landed", state._replace(planned=_NOWHERE, data=_NO_PUT)
        elif put.slot < tail:
            again = put.record
            if self._mutation not in (Mutation.FOLDER_AT_PLAN_TIME, Mutation.NO_REBASE_CHECK):
                again = again._replace(folder=folder)
            yield "DATA behind", _sent(state._replace(data=Put(tail, again)), 0)
        elif 0 not in state.in_flight:
            yield "DATA again", _sent(state, 0)

    def _next_folder(self, log: tuple[Record, ...]) -> int:
        """Where the next row goes, by the fold."""
        if not _is_sealed(log):
            return _folder(log)
        # Of what is forgotten only the name is known, which is that of its first folder.
        return 0 if self._mutation is Mutation.FORGOTTEN_UNSEALED else _ASIDE

    def _seal(self, state: State) -> Steps[State]:
        """A record of the driver's own, between two of its others."""
        if not self._bounds.seals or not state.log or _is_sealed(state.log):
            return
        live = _folder(state.log)
        idle = state.data == _NO_PUT and state.replace == _NO_PUT and not state.read
        published = not self._unpublished(state)
        shown = state.shown == live and not state.calls
        alone = not state.removals and all(place == live for place, _ in state.files)
        owed = self._mutation is Mutation.SEALED_WHILE_OWED
        if idle and published and (owed or (shown and alone)):
            yield "seal", state._replace(log=(*state.log, _SEAL))

    def _compaction(self, state: State) -> Steps[State]:
        put, tail = state.replace, len(state.log)
        if _is_sealed(state.log):
            return
        if not state.read:
            live = _folder(state.log)
            rows = tuple(row for place, row in state.files if place == live)
            if rows and _replaces(state.log) < self._bounds.replaces:
                yield "copy", state._replace(read=rows)
        elif put == _NO_PUT:
            if self._may_replace(state):
                rows, folder = self._removed(state), self._fresh(state.log)
                record = Record(is_replace=True, rows=rows, folder=folder)
                yield "put REPLACE", _sent(state._replace(replace=Put(tail, record)), 1)
            yield "give up", state._replace(read=())
        elif put.slot < tail:
            done = state._replace(replace=_NO_PUT)
            if state.log[put.slot] == put.record:
                yield "REPLACE landed", done._replace(read=())
            else:
                # Its precondition is tested again, as before the first put.
                yield "REPLACE lost", done
        elif 1 not in state.in_flight:
            yield "REPLACE again", _sent(state, 1)

    def _fresh(self, log: tuple[Record, ...]) -> int:
        count = _replaces(log) + 1
        return count % 2 if self._mutation is Mutation.FOLDER_NAME_REUSED else count

    def _may_replace(self, state: State) -> bool:
        if self._mutation in (Mutation.UNCHECKED_REPLACE, Mutation.REPLACE_BEFORE_PUBLISH):
            return True
        return state.read == tuple(range(_rows(state.log))) and not self._unpublished(state)

    def _removed(self, state: State) -> tuple[int, ...]:
        """What REPLACE takes away: the files of the fold, or, unchecked, those that it read."""
        return (
            state.read
            if self._mutation is Mutation.UNCHECKED_REPLACE
            else tuple(range(_rows(state.log)))
        )

    def _requests(self, state: State) -> Steps[State]:
        for sender in state.in_flight:
            put = state.replace if sender else state.data
            rest = tuple(other for other in state.in_flight if other != sender)
            after = state._replace(in_flight=rest)
            if put.slot == len(state.log):
                after = after._replace(log=(*state.log, put.record))
                if put.record.is_replace:
                    copies = tuple((put.record.folder, row) for row in state.read)
                    gone = tuple(place for place in state.gone if place != put.record.folder)
                    files = tuple({*state.files, *copies})
                    after = after._replace(files=files, gone=gone)
                yield "land", after
            yield "lose", state._replace(in_flight=rest)

    # Effects

    def _unpublished(self, state: State) -> list[tuple[int, int]]:
        return [
            (record.folder, record.rows[0])
            for slot, record in enumerate(state.log)
            if not record.is_replace
            and record.rows
            and (record.folder, record.rows[0]) not in state.files
            and not any(
                later.is_replace and record.rows[0] in later.rows for later in state.log[slot:]
            )
        ]

    def _publish(self, state: State) -> Steps[State]:
        for place in self._unpublished(state):
            if place[0] not in state.gone:
                yield "publish", state._replace(files=(*state.files, place))

    def _metastore(self, state: State) -> Steps[State]:
        wanted = _folder(state.log)
        if self._mutation is Mutation.CALL_PER_RECORD:
            for slot, record in enumerate(state.log):
                if slot not in state.called and (record.is_replace or slot == 0):
                    yield (
                        "call",
                        state._replace(
                            calls=tuple({*state.calls, record.folder}), called=(*state.called, slot)
                        ),
                    )
        elif (
            state.log
            and not _is_sealed(state.log)
            and state.shown != wanted
            and wanted not in state.calls
        ):
            yield "call", state._replace(calls=(*state.calls, wanted))
        for folder in state.calls:
            rest = tuple(other for other in state.calls if other != folder)
            yield f"shows {folder}", state._replace(shown=folder, calls=rest)

    def _removals(self, state: State) -> Steps[State]:
        wanted = _folder(state.log)
        old = {place for place, _ in state.files} - {wanted, _ASIDE, *state.removals}
        if _is_sealed(state.log):
            old = set()
        if state.replace != _NO_PUT:
            old.discard(state.replace.record.folder)
        for folder in sorted(old):
            if folder < wanted or self._mutation is Mutation.FOLDER_NAME_REUSED:
                seen = state.shown == wanted and folder not in state.calls
                if seen or self._mutation is Mutation.NO_READ_BACK:
                    yield f"remove {folder}", state._replace(removals=(*state.removals, folder))
        for folder in state.removals:
            files = tuple(place for place in state.files if place[0] != folder)
            yield (
                f"removed {folder}",
                state._replace(
                    files=files,
                    removals=tuple(other for other in state.removals if other != folder),
                    gone=tuple({*state.gone, folder}),
                ),
            )

    # What must hold

    def broken(self, state: State) -> str | None:
        if state.shown in state.gone:
            return "LOSS: readers are shown a folder that was removed"
        folder = _folder(state.log)
        staged = set(self._unpublished(state))
        for row in range(_rows(state.log)):
            places = {(folder, row), (_ASIDE, row)}
            if places.isdisjoint(state.files) and places.isdisjoint(staged):
                return f"LOSS: row {row} will never be in folder {folder}"
        return None

    def at_rest(self, state: State) -> str | None:
        return None if self.is_goal(state) else "LOSS: readers do not see every committed row"

    def is_goal(self, state: State) -> bool:
        seen = sorted(row for folder, row in state.files if folder in (state.shown, _ASIDE))
        return seen == list(range(self._bounds.rows)) and not state.calls

    def must_reach_goal(self, state: State) -> bool:
        return bool(state)


def _folder(log: tuple[Record, ...]) -> int:
    return next((record.folder for record in reversed(log) if record.is_replace), 0)


def _rows(log: tuple[Record, ...]) -> int:
    return sum(len(record.rows) for record in log if not record.is_replace)


def _is_sealed(log: tuple[Record, ...]) -> bool:
    return _SEAL in log


def _replaces(log: tuple[Record, ...]) -> int:
    return sum(record.is_replace for record in log)


def _sent(state: State, sender: int) -> State:
    return state._replace(in_flight=tuple({*state.in_flight, sender}))
