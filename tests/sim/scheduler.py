"""One real thread, many simulated ones: who goes on next is drawn from the seed."""

import heapq
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from greenlet import getcurrent, greenlet

_MOST_THROWS = 50


class KilledError(BaseException):
    """The simulated process is dead; nothing that it still does has an effect."""


class StuckError(Exception):
    """Nothing can go on, or it goes on for ever."""


class DiedHereError(KilledError):
    """The process dies in this very call; what it has sent may arrive all the same."""


@dataclass(eq=False, slots=True)
class Process:
    """A simulated process: its threads die, stand still and are named as one.

    Attributes:
        crash_in: Calls until it dies; None lives on.
        paused: As by SIGSTOP; what it has sent still arrives.
        stops_at: It is paused in its next `put` of a record before the slot is taken, before
            the `record` or the file that it publishes (`publish`) is durable, or before the
            metastore gets partitions (`apply`).
        own: What the product has one of in each process.
        began: When it was started.
        awake_since: When it was paused for the last time and went on.
        lulled: Nothing asks it for records any more.
    """

    name: str
    host: str
    pid: int
    crash_in: int | None = None
    dead: bool = False
    paused: bool = False
    stops_at: str = ""
    threads: list["Thread"] = field(default_factory=list)
    own: dict[type, object] = field(default_factory=dict)
    began: float = 0.0
    awake_since: float = 0.0
    lulled: bool = False


@dataclass(eq=False, slots=True)
class Thread:
    """A simulated thread. `turn` is raised by each wait, so that old timers do nothing."""

    process: Process
    name: str
    task: greenlet
    turn: int = 0
    woken: bool = False
    waits: bool = False


class Scheduler:
    """Runs simulated threads one at a time, on a clock of its own.

    Attributes:
        now: Virtual monotonic seconds.
        escaped: The last error that ended a simulated thread.
        wrong_s: By how much the wall clock of a host is ahead.
        steps: Calls and pauses of simulated threads so far.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.steps = 0
        self.next_event = 1 << 60
        self.processes: list[Process] = []
        self._ready: list[Thread] = []
        self._timers: list[tuple[float, int, Thread, int]] = []
        self._count = 0
        self._doomed: list[Process] = []
        self._some_paused = False
        self.escaped = ""
        self.wrong_s: Callable[[str], float] = lambda host: 0.0
        self._hub = getcurrent()
        self.current: Thread | None = None

    # Called by simulated threads

    def alive(self) -> Thread:
        """The calling thread.

        Raises:
            KilledError: Its process is dead.
        """
        thread = self.current
        assert thread is not None
        if thread.process.dead:
            raise KilledError
        return thread

    def call(self) -> Process:
        """A call to the outside begins: the process may die here, and others may go first."""
        thread = self.alive()
        process = thread.process
        self.steps += 1
        if process.crash_in is not None:
            process.crash_in -= 1
            if process.crash_in < 0:
                process.dead = True
                raise DiedHereError
        if self._ready or self.steps >= self.next_event:
            self._ready.append(thread)
            self._leave(thread)
        return process

    def wait(self, channel: list[tuple[Thread, int]] | None, seconds: float | None) -> bool:
        """Wait to be woken through the channel; False when the time is over first."""
        thread = self.alive()
        self.steps += 1
        thread.turn += 1
        thread.woken, thread.waits = False, True
        if channel is not None:
            channel.append((thread, thread.turn))
        if seconds is not None:
            self._count += 1
            heapq.heappush(
                self._timers, (self.now + max(seconds, 0.0), self._count, thread, thread.turn)
            )
        self._leave(thread)
        return thread.woken

    def wake(self, channel: list[tuple[Thread, int]]) -> None:
        """Wake all that wait at the channel."""
        for thread, turn in channel:
            if thread.turn == turn and thread.waits:
                thread.woken, thread.waits = True, False
                self._ready.append(thread)
        channel.clear()

    def _leave(self, thread: Thread) -> None:
        self._hub.switch()
        if thread.process.dead:
            raise KilledError

    # Called by anyone

    def process(self, name: str, host: str) -> Process:
        """A new process."""
        process = Process(name, host, 100 + len(self.processes), began=self.now)
        self.processes.append(process)
        return process

    def spawn(self, process: Process, target: Callable[[], object], name: str) -> Thread:
        """A new thread of a process; it runs when it is drawn."""

        def run() -> None:
            try:
                if not process.dead:
                    target()
            except KilledError:
                return
            except Exception as error:  # noqa: BLE001 - a finding, with the thread that made it
                where = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{where.filename.rpartition('/')[2]}:{where.lineno}"
                self.escaped = f"{process.name}/{name}: {type(error).__name__} {error} at {place}"

        thread = Thread(process, name, greenlet(run, parent=self._hub))
        process.threads.append(thread)
        self._ready.append(thread)
        return thread

    # Called by the hub

    def turn(self) -> bool:
        """Let one thread go on to its next call; False when none can."""
        while self._doomed:
            self.reap(self._doomed.pop())
        while True:
            while self._timers and self._timers[0][0] <= self.now:
                self._fire()
            able: list[int] | range = range(len(self._ready))
            if self._some_paused:
                able = [n for n in able if not self._ready[n].process.paused]
            if able:
                break
            if not self._let_time_pass():
                return False
        place = able[int(self.rng.random() * len(able))]
        thread = self._ready[place]
        self._ready[place] = self._ready[-1]
        self._ready.pop()
        self._switch_to(thread)
        return True

    def pause(self, process: Process, *, paused: bool) -> None:
        """SIGSTOP or SIGCONT."""
        if process.paused and not paused:
            process.awake_since = self.now
        process.paused = paused
        self._some_paused = any(each.paused and not each.dead for each in self.processes)

    def _let_time_pass(self) -> bool:
        """Set the clock to the next timer of a process that is not paused; False without one."""
        if not self._some_paused:
            while self._timers and not self._is_awaited(self._timers[0]):
                heapq.heappop(self._timers)
            if self._timers:
                self.now = max(self.now, self._timers[0][0])
            return bool(self._timers)
        waiting = [timer for timer in self._timers if self._is_awaited(timer)]
        if len(waiting) < len(self._timers):
            self._timers = waiting
            heapq.heapify(self._timers)
        moments = [timer[0] for timer in waiting if not timer[2].process.paused]
        if not moments:
            return False
        self.now = max(self.now, min(moments))
        return True

    @staticmethod
    def _is_awaited(timer: tuple[float, int, Thread, int]) -> bool:
        return timer[2].turn == timer[3] and timer[2].waits

    def _fire(self) -> None:
        # A paused process finds its timers over when it goes on.
        _, _, thread, turn = heapq.heappop(self._timers)
        if thread.turn == turn and thread.waits:
            thread.waits = False
            self._ready.append(thread)

    def _switch_to(self, thread: Thread) -> None:
        self.current = thread
        try:
            thread.task.switch()
        finally:
            self.current = None
        if thread.process.dead:
            self.reap(thread.process)

    def kill_soon(self, process: Process) -> None:
        """SIGKILL, from a simulated thread; it makes no call any more."""
        process.dead = True
        self._doomed.append(process)

    def kill(self, process: Process) -> None:
        """SIGKILL, from the hub."""
        process.dead = True
        self.reap(process)

    def reap(self, process: Process) -> None:
        """Unwind the threads of a dead process; none of their calls has an effect any more."""
        for thread in process.threads:
            if thread.task.dead:
                continue
            self.current = thread
            try:
                for _ in range(_MOST_THROWS):
                    thread.task.throw(KilledError)
                    if thread.task.dead:
                        break
                else:
                    raise StuckError(f"{process.name}/{thread.name} does not die")
            except KilledError:
                # It had not begun.
                continue
            finally:
                self.current = None
        process.threads.clear()
        self._ready = [thread for thread in self._ready if thread.process is not process]

    def close(self) -> None:
        """End all processes."""
        for process in self.processes:
            self.kill(process)
