"""Reads a few records of topics, to show what is in them. Commits and reports nothing."""

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from uuid import uuid4

from sluiceway.errors import SourceUnavailableError
from sluiceway.sources.contract import LogBounds, SourceBatch, SourcePartition, Split
from sluiceway.sources.registry import SourceAccess, open_client, open_reader
from sluiceway.types.schema_header import KEY_HEADER, VALUE_HEADER, with_schema_headers

_REQUEST_TIMEOUT_S = 10.0
_READ_TIMEOUT_S = 1.0
_LONGEST_S = 120.0


def sample_payloads(
    access: SourceAccess, topics: Sequence[str], records: int
) -> Iterator[bytes | None]:
    """Values of records from both ends of each source partition, oldest first.

    A header that names a value's schema is put before it.

    Args:
        access: Access to the source.
        topics: Literal names.
        records: How many at most; they are shared by the source partitions.

    Raises:
        TopicNotFoundError: There is no such topic.
        SourceUnavailableError: The brokers do not answer, or are slower than two minutes.
    """
    payloads = (
        each
        for batch in _sampled(access, topics, records)
        for each in with_schema_headers(batch.values, batch.headers(), VALUE_HEADER)
    )
    yield from islice(payloads, records)


def sample_keys(
    access: SourceAccess, topics: Sequence[str], records: int
) -> Iterator[bytes | None]:
    """Keys of the same records; see `sample_payloads`."""
    keys = (
        each
        for batch in _sampled(access, topics, records)
        for each in with_schema_headers(batch.keys(), batch.headers(), KEY_HEADER)
    )
    yield from islice(keys, records)


def _sampled(access: SourceAccess, topics: Sequence[str], records: int) -> Iterator[SourceBatch]:
    client = open_client(access, _REQUEST_TIMEOUT_S)
    try:
        found = [each.partition for each in client.discover(topics)]
        bounds = client.bounds(found)
    finally:
        client.close()
    share = max(1, records // max(1, len(found)))
    deadline = time.monotonic() + _LONGEST_S
    ends = [_ends(each, bounds[each], share) for each in found if each in bounds]
    for splits in ([first for first, _ in ends], [last for _, last in ends]):
        wanted = [split for split in splits if split is not None]
        yield from read_splits(access, wanted, deadline)


def _ends(
    partition: SourcePartition, bounds: LogBounds, share: int
) -> tuple[Split | None, Split | None]:
    """The oldest and the newest offsets of a log."""
    start, end = bounds.start_offset, bounds.end_offset
    if end - start <= share:
        return (Split(partition, start, end) if start < end else None), None
    oldest = share // 2
    newest = share - oldest
    first = Split(partition, start, start + oldest) if oldest else None
    return first, Split(partition, end - newest, end)


def read_splits(
    access: SourceAccess, splits: list[Split], deadline: float | None = None
) -> Iterator[SourceBatch]:
    """Read some records, as a task would.

    Args:
        access: Access to the source.
        splits: Each with its stop offset.
        deadline: On the monotonic clock; two minutes from now unless said.

    Raises:
        SourceUnavailableError: The brokers do not answer, or are slower than that.
    """
    if not splits:
        return
    deadline = deadline or time.monotonic() + _LONGEST_S
    reader = open_reader(access, splits, owner=f"sample-{uuid4().hex}")
    try:
        while not reader.finished():
            if time.monotonic() > deadline:
                raise SourceUnavailableError(
                    f"the sample was not read in {_LONGEST_S:.0f} s",
                    where=str(splits[0].partition),
                    hint="ask for fewer records",
                )
            yield from reader.read(_READ_TIMEOUT_S)
    finally:
        reader.close(reusable=False)
