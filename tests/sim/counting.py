"""Audited counts of the simulated rows, and what the monitor demands of closings by them.

Shares no code with the product: rows are counted in the files that the records name.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sim.broker import CLEAN, outcome
from sim.readiness import end_us, minute_of

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from sim.broker import Broker
    from sim.places import Place
    from sim.readiness import Timed

_MINUTE_US = 60_000_000


def audited(broker: "Broker", topic: str, rng: "random.Random") -> dict[str, int]:
    """What somebody else says now of some minutes that follow each other; not always the truth."""
    there: dict[int, int] = {}
    names: dict[int, str] = {}
    for number, log in enumerate(broker.by_id[broker.ids[topic]]):
        for offset, is_row in enumerate(log.known_rows):
            if is_row and outcome(number, offset) == CLEAN:
                name = f"hr={minute_of(number, offset)}"
                names[end_us(name)] = name
                there[end_us(name)] = there.get(end_us(name), 0) + 1
    if not there:
        return {}
    ends = sorted(there)
    first = rng.randrange(len(ends))
    found = {}
    for at in ends[first : first + rng.randint(1, 8)]:
        wrong = rng.choice((0, 0, 0, 0, 1, -1))
        found[names[at]] = max(0, there[at] + wrong)
    return found


@dataclass(slots=True)
class Counts:
    """What was counted elsewhere, as the records have it."""

    expected: dict[str, int] = field(default_factory=dict)

    def take(self, body: dict[str, Any]) -> None:
        """The last word on each minute holds."""
        self.expected |= {each["prefix"]: int(each["rows"]) for each in body["counts"]}

    def expire(self, prefix: str, rows: int) -> None:
        """So many rows fewer are expected."""
        if prefix in self.expected:
            self.expected[prefix] = max(0, self.expected[prefix] - rows)

    def is_there(self, prefix: str, places: "Mapping[str, Place]") -> bool:
        """A count has come, and as many rows are committed."""
        place = places.get(prefix)
        rows = 0 if place is None else sum(f.content.count(b"\n") for f in place.live.values())
        return prefix in self.expected and rows >= self.expected[prefix]

    def wrong_closing(
        self,
        body: dict[str, Any],
        closed: "Mapping[str, int]",
        places: "Mapping[str, Place]",
        timed: "Timed | None",
    ) -> str:
        """What is closed that its count still holds, in words; empty when nothing is."""
        if timed is None or not timed.counts:
            return f"counts {body['counted']}" if body.get("counted") else ""
        last = max((end_us(each) for each in closed if "=2" in each), default=None)
        if last is None:
            # The first closing begins at any minute: an epoch in flight may bring older ones, which
            # are then closed with it. So it begins where the run up to the latest minute does.
            there = {end_us(each) for each in body["closed"] if self.is_there(each, places)}
            first = max(there, default=None)
            while first is not None and first - _MINUTE_US in there:
                first -= _MINUTE_US
            last = None if first is None else first - _MINUTE_US
        for prefix in sorted(body["closed"], key=end_us):
            behind = last is not None and end_us(prefix) <= last
            in_order = last is None or end_us(prefix) == last + _MINUTE_US
            if not (behind or in_order):
                return f"closes {prefix}, out of order"
            if not (behind or self.is_there(prefix, places)):
                return f"closes {prefix}, counted {self.expected.get(prefix)}"
            last = max(last or 0, end_us(prefix))
        return ""

    def stuck(
        self,
        closed: "Mapping[str, int]",
        places: "Mapping[str, Place]",
        watermark_us: int | None,
        timed: "Timed",
    ) -> str:
        """A minute that nothing holds any more, and that is open; empty when there is none."""
        last = max((end_us(each) for each in closed if "=2" in each), default=None)
        for name in sorted(places):
            if name in closed or places[name].expired or not places[name].live:
                continue
            passed = watermark_us is not None and end_us(name) + timed.lateness_us <= watermark_us
            there = self.is_there(name, places)
            behind = last is not None and end_us(name) <= last
            if behind and (passed or there):
                return name
            if not behind:
                is_next = last is None or end_us(name) == last + _MINUTE_US
                due = is_next and there and (passed or timed.counts == "alone")
                return name if due else ""
        return ""
