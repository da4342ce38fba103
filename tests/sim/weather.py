"""What goes wrong, and when: drawn from the seed, for some time or for single calls."""

import errno
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sim.scheduler import DiedHereError, KilledError, Process, Scheduler
from sluiceway.errors import (
    MetastoreUnavailableError,
    SourceUnavailableError,
    StorageUnavailableError,
    TaskFailedError,
)

_LATE_STEPS = 400
_CHANGES = ("link", "rename", "unlink", "mkdir")
_READS = ("get", "head", "list", "probe")


@dataclass(frozen=True, slots=True)
class Rates:
    """How often single calls go wrong in this run.

    Attributes:
        failed: The call has no effect and fails.
        reply_lost: It has its effect and fails.
        late: A request that failed, or whose sender died, arrives all the same, later.
        doubled: It arrives a second time, later.
        slow: It takes seconds.
        metastore_slow: A call to the metastore takes seconds, before its effect and after it.
        pace: Each call of a driver takes up to so many seconds, so that a commit lasts epochs.
        stale: The log's listing is one of a while ago.
        refused: PREPARE finds an attempt's folder other than the task has said.
        task_dies: An attempt at a task ends without an answer.
        task_slow: It outlives the straggler time-out.
        task_again: A second attempt runs at the same time.
    """

    failed: float = 0.0
    reply_lost: float = 0.0
    late: float = 0.0
    doubled: float = 0.0
    slow: float = 0.0
    metastore_slow: float = 0.0
    pace: float = 0.0
    stale: float = 0.0
    refused: float = 0.0
    task_dies: float = 0.0
    task_slow: float = 0.0
    task_again: float = 0.0

    @classmethod
    def drawn(cls, rng: random.Random) -> "Rates":
        """Calm, with one kind of trouble, or stormy."""
        kinds = list(cls.__dataclass_fields__)
        chosen = rng.sample(kinds, rng.choice((0, 1, 2, len(kinds))))
        most = {
            "late": 0.7,
            "stale": 0.5,
            "metastore_slow": 0.5,
            "pace": 0.3,
            "refused": 0.2,
            "task_dies": 0.2,
            "task_slow": 0.2,
            "task_again": 0.4,
        }
        return cls(**{kind: rng.random() * most.get(kind, 0.06) for kind in chosen})


def _place(call: str, path: str) -> str:
    """Where in a put or publish a call stands: before its effect, or seen but not durable."""
    if call in ("link", "put", "rename") and "/log/" in path:
        return "put"
    if call != "fsync":
        return ""
    return "record" if "/log/" in path else "publish" if "/_sluiceway" not in path else ""


@dataclass(slots=True)
class Late:
    """A request that is under way."""

    due: int
    what: str
    effect: Callable[[], Any]


@dataclass(slots=True)
class Weather:
    """Faults of stores, brokers and metastore.

    Attributes:
        until: Kind of trouble -> step at which it is over.
        under_way: Requests that have not arrived yet.
        takes_no_name: Whether no file can get its final name in a folder of the table now.
        trace: Called with what happens; None without a reader.
    """

    scheduler: Scheduler
    rates: Rates
    note: Callable[[str], None]
    until: dict[str, int] = field(default_factory=dict)
    under_way: list[Late] = field(default_factory=list)
    takes_no_name: Callable[[str], bool] = lambda _: False
    arrived: int = 0

    def heal(self) -> None:
        """From now on all goes well, but for what is under way."""
        self.rates = Rates(late=self.rates.late)
        self.until.clear()

    def begin(self, kind: str, steps: int) -> None:
        """Trouble of a kind for so many steps."""
        self.until[kind] = self.scheduler.steps + steps

    def deliver(self, *, everything: bool = False, to: str = "") -> None:
        """Let the requests arrive that are due, or everything; `to` names the only receiver."""
        due = [late for late in self.under_way if everything or late.due <= self.scheduler.steps]
        for late in [late for late in due if late.what.startswith(to)]:
            self.under_way.remove(late)
            self.arrived += 1
            self.note(f"late arrival: {late.what}")
            self._arrive(late.effect)

    @staticmethod
    def _arrive(effect: Callable[[], Any]) -> None:
        try:
            effect()
        except OSError:
            # No caller waits for the answer.
            return

    def _send_late(self, what: str, effect: Callable[[], Any]) -> None:
        rng = self.scheduler.rng
        if rng.random() < self.rates.late:
            due = self.scheduler.steps + rng.randrange(1, _LATE_STEPS)
            self.under_way.append(Late(due, what, effect))

    def _lasts(self, kind: str) -> bool:
        return bool(self.until) and self.until.get(kind, -1) >= self.scheduler.steps

    def _is_nameless(self, call: str, path: str) -> bool:
        names = call in ("link", "publish") and "/_sluiceway/" not in path
        return names and self.takes_no_name(path.rpartition("/")[0])

    def _hit(self, rate: float) -> bool:
        return rate > 0.0 and self.scheduler.rng.random() < rate

    def _take_time(self, process: Process) -> None:
        rng = self.scheduler.rng
        if self.rates.pace and process.name.startswith("driver"):
            self.scheduler.wait(None, rng.random() * self.rates.pace)
        if self._hit(self.rates.slow):
            self.scheduler.wait(None, rng.random() * 3)

    # System calls of a local or NFS path

    def before(self, call: str, path: str) -> None:
        """The call may fail without an effect."""
        process = self.scheduler.alive().process
        who = process.name
        self.note(f"{who}: {call} {path}")
        if process.stops_at and process.stops_at == _place(call, path):
            self._stand_still(process)
        self._take_time(process)
        if self._lasts("full") and call in ("write", "mkdir", "link", "open xb"):
            raise OSError(errno.ENOSPC, "no space left on device", path)
        nameless = self._is_nameless(call, path)
        if nameless or self._lasts("storage") or self._hit(self.rates.failed):
            self.note(f"{who}: {call} {path} FAILS")
            raise OSError(errno.EIO, "input/output error", path)

    def after(self, call: str, path: str) -> None:
        """The call may fail although it had its effect, as over NFS."""
        if call in _CHANGES and self._hit(self.rates.reply_lost):
            self.note(f"{call} {path}: reply LOST")
            if call == "link" and self.scheduler.rng.random() < 0.5:
                raise FileExistsError(errno.EEXIST, "a repeated request", path)
            if call == "unlink" and self.scheduler.rng.random() < 0.5:
                raise FileNotFoundError(errno.ENOENT, "a repeated request", path)
            raise OSError(errno.EIO, "input/output error", path)

    def died(self, call: str, path: str, effect: Callable[[], Any]) -> None:
        """The caller died in the call."""
        self.note(f"DIES in {call} {path}")
        if call in _CHANGES:
            self._send_late(f"{call} {path}", effect)

    # Requests to other stores

    def ask_storage(self, request: str, path: str, effect: Callable[[], Any]) -> Any:
        """A request to HDFS or an object store."""
        changes = request not in _READS
        what = f"{request} {path}"
        try:
            who = self.scheduler.call().name
        except DiedHereError:
            self.note(f"DIES in {what}")
            if changes:
                self._send_late(what, effect)
            raise
        self.note(f"{who}: {what}")
        process = self.scheduler.alive().process
        if process.stops_at and process.stops_at == _place(request, path):
            self._stand_still(process)
        self._take_time(process)
        full = changes and request != "remove" and self._lasts("full")
        full = full or self._is_nameless(request, path)
        if full or self._lasts("storage") or self._hit(self.rates.failed):
            self.note(f"{who}: {what} FAILS")
            if changes:
                self._send_late(what, effect)
            raise StorageUnavailableError("no answer", where=path)
        result = effect()
        if changes and self._hit(self.rates.doubled):
            self._send_late(f"{what} again", effect)
        if self._hit(self.rates.reply_lost):
            self.note(f"{who}: {what}: reply LOST")
            raise StorageUnavailableError("the answer was lost", where=path)
        return result

    def _stand_still(self, process: Process) -> None:
        """SIGSTOP: what was looked at before is old when it goes on."""
        self.note(f"{process.name} is paused at its {process.stops_at}")
        process.stops_at = ""
        self.scheduler.pause(process, paused=True)
        self.scheduler.wait(None, 0.0)

    def refuse(self) -> None:
        """What tasks have staged may be refused after a while."""
        if self._hit(self.rates.refused):
            self.scheduler.wait(None, self.scheduler.rng.random() * 2)
            raise TaskFailedError("a listing has not the files that the task has named")

    def stale(self) -> bool:
        """Whether a listing that is a hint is an old one."""
        return self._hit(self.rates.stale)

    # Brokers and metastore

    def ask_broker(self, request: str) -> None:
        """A request of the driver to the brokers."""
        who = self.scheduler.call().name
        self.note(f"{who}: broker {request}")
        if self._lasts("broker") or self._hit(self.rates.failed):
            raise SourceUnavailableError("no broker answers")

    def _take_long(self, what: str, effect: Callable[[], None]) -> None:
        """A call takes seconds; its sender may die meanwhile."""
        rng = self.scheduler.rng
        try:
            self.scheduler.wait(None, rng.random() * 2)
        except KilledError:
            self._send_late(what, effect)
            raise
        effect()
        self.scheduler.wait(None, rng.random() * 2)

    def ask_metastore(self, request: str, effect: Callable[[], None]) -> None:
        """A call to the metastore."""
        what = f"metastore {request}"
        try:
            who = self.scheduler.call().name
        except DiedHereError:
            self._send_late(what, effect)
            raise
        self.note(f"{who}: {what}")
        process = self.scheduler.alive().process
        if request == "apply" and process.stops_at == "apply":
            self._stand_still(process)
        if self._lasts("metastore") or self._hit(self.rates.failed):
            self._send_late(what, effect)
            raise MetastoreUnavailableError("no answer")
        if self._hit(self.rates.metastore_slow):
            # What others ask meanwhile comes before it, or before its answer.
            self._take_long(what, effect)
        else:
            effect()
        if self._hit(self.rates.reply_lost):
            raise MetastoreUnavailableError("the answer was lost")
