"""Wall clocks of the hosts: each may be wrong for a moment, for a while, or from some time on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sim.places import require
from sim.scheduler import Process

BELIEVE_AFTER_S: Final = 20.0
"""For how long a driver has to see another time before it may take it for the right one."""

_SLACK_S: Final = 6.0


@dataclass(slots=True)
class HostClocks:
    """What is wrong with the clocks of all hosts, now and before.

    Attributes:
        steps: Host -> (moment, by how much its clock is wrong from then on), the first one first.
        said_until_us: Greatest time of a look that any record has.
    """

    now: Callable[[], float]
    steps: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    said_until_us: int = 0

    def wrong_s(self, host: str) -> float:
        """By how much a host's clock is ahead."""
        steps = self.steps.get(host)
        return steps[-1][1] if steps else 0.0

    def step(self, host: str, wrong_s: float) -> None:
        """From now on a host's clock is ahead by so much."""
        self.steps.setdefault(host, []).append((self.now(), wrong_s))

    @property
    def stepped(self) -> bool:
        """Whether any clock was ever wrong."""
        return bool(self.steps)

    def check(self, process: Process | None, read_at_us: int, true_us: int, slot: str) -> None:
        """A record says when log ends were read: not by a clock that had just stepped ahead.

        Args:
            process: Whose record it is; None when its sender has died.
            read_at_us: What the record says.
            true_us: When it lands, in truth.
            slot: In words.
        """
        if process is not None and read_at_us > self.said_until_us:
            most_us = true_us + int((self._borne_out_s(process) + _SLACK_S) * 1_000_000)
            ahead_s = (read_at_us - true_us) / 1e6
            require(read_at_us <= most_us, "clock", f"{slot} was read {ahead_s:.1f} s ahead")
        self.said_until_us = max(self.said_until_us, read_at_us)

    def _borne_out_s(self, process: Process) -> float:
        """How far ahead a time may be that the process has seen at its start, or for long since."""
        steps = [(0.0, 0.0), *self.steps.get(process.host, [])]
        most = 0.0
        for number, (since, wrong_s) in enumerate(steps):
            until = steps[number + 1][0] if number + 1 < len(steps) else self.now()
            at_start = since <= process.began <= until
            seen_s = until - max(since, process.began)
            if at_start or seen_s >= BELIEVE_AFTER_S - _SLACK_S:
                most = max(most, wrong_s)
        return most
