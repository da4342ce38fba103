"""The commit protocol on plain files: fence, epochs of several tasks, commit, publish, garbage.

Follows the driver: START, RECOVER (unpublished records only), then one epoch at a time. A task
reads one source partition; its attempts write into folders of their own and put their result by
name, exclusively. Requests to the log may arrive late, twice or never, also after the death of
who sent them. Crashes can come between any two steps.
"""

from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from model.checker import Steps
from model.mutation import Mutation


class File(NamedTuple):
    """The file of one attempt at one task; `end` 0 while the attempt still reads."""

    term: int
    epoch: int
    part: int
    attempt: int
    start: int
    end: int

    def task(self) -> tuple[int, int, int]:
        """What its result is named by."""
        return self[:3]


class Record(NamedTuple):
    """FENCE (no epoch, `owner` is who starts) or DATA (`epoch` from 1)."""

    term: int
    epoch: int
    files: tuple[File, ...]
    through: int
    owner: int


class Writer(NamedTuple):
    """A driver: what it does, the slot it believes to be next, and what it knows."""

    phase: str
    slot: int
    term: int
    epoch: int
    through: int
    record: Record


class State(NamedTuple):
    """Everything that survives or is under way."""

    log: tuple[Record, ...]
    writers: tuple[Writer, ...]
    puts: tuple[tuple[int, Record], ...]
    staged: tuple[File, ...]
    final: tuple[File, ...]
    tasks: tuple[File, ...]
    results: tuple[File, ...]
    starts: int
    crashes: int
    spares: int
    throws: int


_NOTHING = Record(0, 0, (), 0, 0)
_OFF = Writer("off", 0, 0, 0, 0, _NOTHING)


@dataclass(frozen=True, slots=True)
class FilesBounds:
    """How far the model goes.

    Attributes:
        rows: Rows of each source partition.
        starts: Drivers started in all, at most two at a time.
        crashes: Driver deaths.
        spares: Second attempts at a task (retry, speculation).
        throws: Epochs thrown away by a living driver.
        zombies: Attempts go on after their driver's death and after their epoch.
        leftovers: A publish may end between the link and the unlink.
    """

    rows: tuple[int, ...] = (1, 1)
    starts: int = 2
    crashes: int = 1
    spares: int = 0
    throws: int = 0
    zombies: bool = False
    leftovers: bool = False


class FilesModel:
    """See the module."""

    def __init__(self, bounds: FilesBounds, mutation: Mutation | None = None) -> None:
        self._bounds = bounds
        self._mutation = mutation
        self._parts = range(len(bounds.rows))
        self._keep_puts = mutation is Mutation.SLOT_OVERWRITTEN
        self._keep_results = mutation is Mutation.RESULT_OF_ANOTHER_EPOCH

    def initial(self) -> State:
        bounds = self._bounds
        return State(
            log=(),
            writers=(_OFF, _OFF),
            puts=(),
            staged=(),
            final=(),
            tasks=(),
            results=(),
            starts=bounds.starts,
            crashes=bounds.crashes,
            spares=bounds.spares,
            throws=bounds.throws,
        )

    def canonical(self, state: State) -> State:
        """Drivers are alike; a put to a filled slot and a result nobody waits for are nothing."""
        tail = len(state.log)
        puts = state.puts
        if not self._keep_puts:
            puts = tuple(put for put in puts if put[0] >= tail)
        running = [writer[2:4] for writer in state.writers if writer.phase == "run"]
        results, tasks = state.results, state.tasks
        if not self._keep_results:
            results = tuple(file for file in results if file[:2] in running)
        if not self._bounds.zombies:
            tasks = tuple(file for file in tasks if file[:2] in running)
        first, second = state.writers
        return state._replace(
            writers=(first, second) if first <= second else (second, first),
            puts=tuple(sorted(puts)),
            results=tuple(sorted(results)),
            tasks=tuple(sorted(tasks)),
        )

    # What drivers do

    def steps(self, state: State) -> Steps[State]:
        for number, writer in enumerate(state.writers):
            if writer.phase == "off":
                yield from self._start(state, number)
                continue
            if state.crashes:
                after = _with(state, number, _OFF)
                yield f"t{writer.term} crash", after._replace(crashes=state.crashes - 1)
            match writer.phase:
                case "fence":
                    yield from self._fence(state, number, writer)
                case "publish":
                    yield from self._publish(state, number, writer)
                case "idle":
                    yield from self._plan(state, number, writer)
                case "run":
                    yield from self._run(state, number, writer)
                case _:
                    yield from self._commit(state, number, writer)
        yield from self._attempts(state)
        yield from self._requests(state)
        yield from self._garbage(state)

    def _start(self, state: State, number: int) -> Steps[State]:
        if not state.starts or (number and state.writers[0].phase == "off"):
            return
        fence = Record(_term(state.log) + 1, 0, (), _through(state.log), state.starts)
        yield (
            "start",
            self._put(state, number, Writer("fence", len(state.log), 0, 0, 0, fence))._replace(
                starts=state.starts - 1
            ),
        )

    def _fence(self, state: State, number: int, writer: Writer) -> Steps[State]:
        slot, record = writer.slot, writer.record
        if slot < len(state.log):
            if state.log[slot] == record:
                owner = Writer("publish", slot + 1, record.term, 1, record.through, _NOTHING)
                if self._mutation is Mutation.NO_RECOVERY:
                    owner = owner._replace(through=slot + 1)
                yield f"t{record.term} fenced", self._after_publish(state, number, owner)
                return
            again = Record(_term(state.log) + 1, 0, (), _through(state.log), record.owner)
            writer = writer._replace(slot=len(state.log), record=again)
            yield "fence-behind", self._put(state, number, writer)
        elif (slot, record) not in state.puts:
            yield "fence-again", self._put(state, number, writer)

    def _publish(self, state: State, number: int, writer: Writer) -> Steps[State]:
        for file in _unpublished(state, writer):
            if file in state.staged:
                after = state._replace(
                    staged=_without(state.staged, file), final=_added(state.final, file)
                )
                yield f"t{writer.term} publish", self._after_publish(after, number, writer)
                if self._bounds.leftovers:
                    both = state._replace(final=after.final)
                    yield f"t{writer.term} link", self._after_publish(both, number, writer)

    def _after_publish(self, state: State, number: int, writer: Writer) -> State:
        if not _unpublished(state, writer):
            writer = writer._replace(phase="idle", through=writer.slot)
        return _with(state, number, writer)

    def _plan(self, state: State, number: int, writer: Writer) -> Steps[State]:
        ends = self._ends_as_known(state.log[: writer.slot])
        tasks = tuple(
            File(writer.term, writer.epoch, part, 0, ends[part], 0)
            for part in self._parts
            if ends[part] < self._bounds.rows[part]
        )
        if tasks:
            after = _with(state, number, writer._replace(phase="run"))
            yield f"t{writer.term} plan", after._replace(tasks=(*state.tasks, *tasks))

    def _ends_as_known(self, log: tuple[Record, ...]) -> list[int]:
        if self._mutation is not Mutation.DEDUPE_BY_EPOCH:
            return self._ends(log)
        ends, last = [0 for _ in self._parts], 0
        for record in log:
            if record.epoch > last:
                last = record.epoch
                for file in record.files:
                    ends[file.part] = file.end
        return ends

    def _ends(self, log: tuple[Record, ...]) -> list[int]:
        ends = [0 for _ in self._parts]
        for record in log:
            for file in record.files:
                ends[file.part] = file.end
        return ends

    def _run(self, state: State, number: int, writer: Writer) -> Steps[State]:
        mine = (writer.term, writer.epoch)
        files = self._collected(state, mine)
        if files:
            record = Record(*mine, files, writer.through, 0)
            after = self._put(state, number, writer._replace(phase="commit", record=record))
            if self._mutation is Mutation.PUBLISH_BEFORE_COMMIT:
                staged = tuple(file for file in state.staged if file not in files)
                after = after._replace(staged=staged, final=tuple(sorted({*state.final, *files})))
            yield f"t{writer.term} commit", after
        if state.throws:
            again = writer._replace(phase="idle", epoch=writer.epoch + 1)
            after = _with(state, number, again)
            yield f"t{writer.term} throw-away", after._replace(throws=state.throws - 1)
        if state.spares:
            yield from self._retry(state, mine)

    def _collected(self, state: State, mine: tuple[int, int]) -> tuple[File, ...]:
        """Files of the tasks that have finished by now; the driver may look at any time."""
        files = tuple(file for file in state.results if file[:2] == mine)
        match self._mutation:
            case Mutation.RESULT_OF_ANOTHER_EPOCH:
                files = tuple({file.part: file for file in reversed(state.results)}.values())
            case Mutation.EVERY_ATTEMPT_COUNTS:
                files = tuple(file for file in state.staged if file[:2] == mine)
            case Mutation.STRAGGLERS_COUNTED if files:
                files = (*files, *self._unfinished(state, mine, files))
            case _:
                pass
        return tuple(sorted(files))

    def _retry(self, state: State, mine: tuple[int, int]) -> Steps[State]:
        for task in state.tasks:
            spare = task._replace(attempt=1, end=0)
            if task[:2] == mine and task.attempt == 0 and spare not in state.tasks:
                yield (
                    f"retry p{task.part}",
                    state._replace(tasks=(*state.tasks, spare), spares=state.spares - 1),
                )

    def _unfinished(
        self, state: State, mine: tuple[int, int], files: tuple[File, ...]
    ) -> tuple[File, ...]:
        done = {file.part for file in files}
        return tuple(
            task._replace(end=self._bounds.rows[task.part])
            for task in state.tasks
            if task[:2] == mine and task.part not in done and task.attempt == 0
        )

    def _commit(self, state: State, number: int, writer: Writer) -> Steps[State]:
        slot, record = writer.slot, writer.record
        if slot < len(state.log):
            if state.log[slot] == record:
                through = writer.through
                if self._mutation is Mutation.THROUGH_BEFORE_PUBLISH:
                    through = slot + 1
                owner = Writer(
                    "publish", slot + 1, writer.term, writer.epoch + 1, through, _NOTHING
                )
                yield f"t{writer.term} committed", self._after_publish(state, number, owner)
            elif self._mutation is Mutation.NO_FENCE_CHECK:
                behind = writer._replace(slot=len(state.log))
                yield f"t{writer.term} put-behind", self._put(state, number, behind)
            else:
                # Only a FENCE can have taken the slot: nobody else writes beside a driver.
                yield f"t{writer.term} fenced-off", _with(state, number, _OFF)
            return
        if (slot, record) not in state.puts:
            yield f"t{writer.term} put-again", self._put(state, number, writer)
        if self._mutation is Mutation.DELETE_ON_TIMEOUT:
            after = state._replace(
                staged=tuple(file for file in state.staged if file not in record.files)
            )
            again = writer._replace(phase="idle", epoch=writer.epoch + 1, record=_NOTHING)
            yield f"t{writer.term} give-up", _with(after, number, again)
        if self._mutation is Mutation.RESTAGE_AFTER_UNKNOWN:
            again = writer._replace(
                phase="idle", slot=slot + 1, epoch=writer.epoch + 1, record=_NOTHING
            )
            yield f"t{writer.term} run-again", _with(state, number, again)

    def _put(self, state: State, number: int, writer: Writer) -> State:
        put = (writer.slot, writer.record)
        puts = state.puts if put in state.puts else (*state.puts, put)
        return _with(state, number, writer)._replace(puts=puts)

    # What happens without them

    def _attempts(self, state: State) -> Steps[State]:
        results = {file.task() for file in state.results}
        for task in state.tasks:
            others = _without(state.tasks, task)
            if task.end == 0:
                for end in range(task.start + 1, self._bounds.rows[task.part] + 1):
                    file = task._replace(end=end)
                    staged = _added(self._not_overwritten(state.staged, file), file)
                    yield (
                        f"write p{task.part} to {end}",
                        state._replace(staged=staged, tasks=(*others, file)),
                    )
            elif task.task() in results:
                yield f"too late p{task.part}", state._replace(tasks=others)
            else:
                yield (
                    f"finish p{task.part}",
                    state._replace(tasks=others, results=(*state.results, task)),
                )

    def _not_overwritten(self, staged: tuple[File, ...], new: File) -> tuple[File, ...]:
        match self._mutation:
            case Mutation.SHARED_ATTEMPT_FOLDER:
                return tuple(file for file in staged if file[:3] != new[:3])
            case Mutation.NAMES_WITHOUT_TERM:
                return tuple(file for file in staged if file[1:4] != new[1:4])
            case _:
                return staged

    def _requests(self, state: State) -> Steps[State]:
        for put in state.puts:
            slot, record = put
            puts = tuple(other for other in state.puts if other != put)
            if slot == len(state.log):
                yield "land", state._replace(log=(*state.log, record), puts=puts)
            elif slot < len(state.log) and self._keep_puts:
                log = (*state.log[:slot], record, *state.log[slot + 1 :])
                yield "land-over", state._replace(log=log, puts=puts)
            yield "lose", state._replace(puts=puts)

    def _garbage(self, state: State) -> Steps[State]:
        if not state.staged:
            return
        named = set(chain.from_iterable(record.files for record in state.log))
        for file in state.staged:
            if self._may_go(file, state, named):
                yield "gc", state._replace(staged=_without(state.staged, file))

    def _may_go(self, file: File, state: State, named: set[File]) -> bool:
        """The garbage rule; at any time, by whoever has read the log."""
        decided = _is_decided(file, state.log)
        match self._mutation:
            case Mutation.GC_BY_AGE:
                decided = True
            case Mutation.GC_OF_RUNNING_EPOCH:
                decided = _term(state.log) >= file.term
            case Mutation.GC_WITHOUT_FINAL_NAMES:
                return decided
            case _:
                pass
        return decided and (file not in named or file in state.final)

    # What must hold

    def broken(self, state: State) -> str | None:
        return self._broken_chain(state.log) or self._broken_files(state)

    def _broken_chain(self, log: tuple[Record, ...]) -> str | None:
        ends = [0 for _ in self._parts]
        term, epoch = 0, 0
        for record in log:
            if record.epoch == 0:
                term, epoch = record.term, 0
                continue
            if record.term != term:
                return f"I3: DATA of term {record.term} under the fence of term {term}"
            if record.epoch <= epoch:
                return f"I9: epoch {record.epoch} after {epoch}"
            epoch = record.epoch
            for file in record.files:
                if file.start != ends[file.part]:
                    return f"I2: p{file.part} starts at {file.start}, not {ends[file.part]}"
                if file[:2] != record[:2]:
                    return "I9: DATA names a file of another term or epoch"
                ends[file.part] = file.end
        return None

    def _broken_files(self, state: State) -> str | None:
        named = list(chain.from_iterable(record.files for record in state.log))
        published = set(state.final)
        if not published.issubset(named):
            return "I4: a file is visible that no record names"
        if any(file not in published and file not in state.staged for file in named):
            return "I8 LOSS: a committed file is neither staged nor published"
        early = chain.from_iterable(record.files for record in state.log[: _through(state.log)])
        if any(file not in published for file in early):
            return "I5: published_through covers a file that is not published"
        return None

    def at_rest(self, state: State) -> str | None:
        return None if self.is_goal(state) or not state.starts else "STUCK: nothing can happen"

    def is_goal(self, state: State) -> bool:
        named = sorted(chain.from_iterable(record.files for record in state.log))
        return self._ends(state.log) == list(self._bounds.rows) and named == list(state.final)

    def must_reach_goal(self, state: State) -> bool:
        return state.starts > 0


def _with(state: State, number: int, writer: Writer) -> State:
    first, second = state.writers
    return state._replace(writers=(first, writer) if number else (writer, second))


def _without(files: tuple[File, ...], gone: File) -> tuple[File, ...]:
    return tuple(file for file in files if file != gone)


def _added(files: tuple[File, ...], new: File) -> tuple[File, ...]:
    return tuple(sorted((*files, new)))


def _term(log: tuple[Record, ...]) -> int:
    return max((record.term for record in log), default=0)


def _through(log: tuple[Record, ...]) -> int:
    return max((record.through for record in log), default=0)


def _unpublished(state: State, writer: Writer) -> list[File]:
    records = state.log[writer.through : writer.slot]
    return [file for record in records for file in record.files if file not in state.final]


def _is_decided(file: File, log: tuple[Record, ...]) -> bool:
    """The garbage rule: a FENCE of a higher term, or DATA of its term and no lower epoch."""
    return any(
        record.term > file.term or (record.term == file.term and record.epoch >= file.epoch)
        for record in log
    )
