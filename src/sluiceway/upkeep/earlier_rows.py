"""What lies in a queue before the offsets at which a route began, where no epoch reads.

`backfill --from offsets` adds the rows of a prefix that lie there. Its SWAP pins the offsets, so
that they are added once, and are read again with all else that has made the prefix.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sluiceway.errors import RequestRefusedError
from sluiceway.ledger.operator_records import SourceChangeRecord
from sluiceway.ledger.records import DataRecord, Record, SourcesRecord
from sluiceway.sources.contract import TABLE_TOPIC
from sluiceway.types.log_key import LogKey, SourceKey

_PIN = "before:"


@dataclass(frozen=True, slots=True)
class EarlierRange:
    """Offsets `[start, end)` of one log, all before the first offset that any epoch has read."""

    topic: str
    partition: LogKey
    start: int
    end: int
    topic_id: str
    cluster_id: str

    def pin(self) -> tuple[str, str]:
        """The same as a pin of a SWAP."""
        parts = [self.topic, self.partition, self.start, self.end, self.topic_id, self.cluster_id]
        return f"{_PIN}{self.topic}[{self.partition}]", json.dumps(parts)


def pinned_ranges(pins: Mapping[str, str]) -> list[EarlierRange]:
    """What the pins of a SWAP say; empty for a SWAP without such rows."""
    texts = (text for name, text in sorted(pins.items()) if name.startswith(_PIN))
    return [EarlierRange(*json.loads(text)) for text in texts]


def before_first(records: Iterable[Record]) -> Iterator[EarlierRange]:
    """For each log that the route reads all offsets below the first that was ever read.

    Args:
        records: The whole log, from its first slot on.

    Raises:
        RequestRefusedError: Rows from before may be in the table already.
    """
    first: dict[SourceKey, EarlierRange] = {}
    for record in records:
        body = record.body
        if isinstance(body, SourceChangeRecord):
            raise _refused("another log had the name of a topic once, and its rows are there")
        if isinstance(body, DataRecord):
            for span in body.ranges:
                _lower(first, (span.topic, span.partition), int(span.start))
        if not isinstance(body, SourcesRecord):
            continue
        for pin in body.partitions:
            key = (pin.topic, pin.partition)
            if pin.topic.startswith(TABLE_TOPIC) or pin.origin is not None:
                raise _refused("the route has read rows of its topics from a table or a copy")
            if key not in first:
                first[key] = EarlierRange(*key, 0, int(pin.start), pin.topic_id, pin.cluster_id)
            elif pin.how != "resumed" and not pin.retired:
                _lower(first, key, int(pin.start))
    yield from (first[key] for key in sorted(first, key=str))


def _lower(first: dict[SourceKey, EarlierRange], key: SourceKey, start: int) -> None:
    known = first[key]
    if start < known.end:
        first[key] = EarlierRange(*key, 0, start, known.topic_id, known.cluster_id)


def _refused(why: str) -> RequestRefusedError:
    return RequestRefusedError(why, hint="read them from files: `--from files GLOB`")
