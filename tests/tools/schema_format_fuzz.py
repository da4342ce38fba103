"""Feeds damaged payloads to the decoders of Avro and Protobuf.

`python -m tools.schema_format_fuzz --format avro --payloads 1000000` in `tests/`

Whatever comes, a decoder answers for every payload, with a row or a dirty row, and as it answers
for that payload alone. The last line is JSON; the exit code is 1 when any of this failed.
"""

import argparse
import faulthandler
import json
import random
import resource
import sys
from collections.abc import Callable
from types import ModuleType

from sluiceway.formats.contract import Decoded, RowDecoder
from tools import fuzz_avro, fuzz_protobuf

FORMATS: dict[str, ModuleType] = {"avro": fuzz_avro, "protobuf": fuzz_protobuf}
BATCH = 250
ALONE = 5
HANG_S = 120
MAX_MIB = 2_000


def truncated(payload: bytes, pick: random.Random) -> bytes:
    """The payload's beginning."""
    return payload[: pick.randrange(len(payload) + 1)]


def flipped(payload: bytes, pick: random.Random) -> bytes:
    """Some bits are others."""
    data = bytearray(payload)
    for _ in range(pick.choice((1, 1, 2, 8)) if data else 0):
        data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)
    return bytes(data)


def inserted(payload: bytes, pick: random.Random) -> bytes:
    """Bytes stand in it that do not belong there: numbers without end, lengths, bad UTF-8."""
    place = pick.randrange(len(payload) + 1)
    strange = (b"\xff" * 12, b"\x80" * 9, b"\xfe\xff\xff\xff\x0f", b"\0", b"\xc3", b"\2" * 150)
    return payload[:place] + pick.choice((*strange, pick.randbytes(4))) + payload[place:]


def twice(payload: bytes, pick: random.Random) -> bytes:
    """A stretch of bytes comes again."""
    place = pick.randrange(len(payload) + 1)
    return payload[:place] + payload


DAMAGES = (truncated, flipped, inserted, twice)


def damaged(make: Callable[[random.Random], bytes], pick: random.Random) -> bytes | None:
    """A payload, mostly damaged; now and then none."""
    if pick.random() < 0.01:
        return pick.choice((None, b"", pick.randbytes(20)))
    found = make(pick)
    for _ in range(0 if pick.random() < 0.2 else pick.choice((1, 1, 2))):
        found = pick.choice(DAMAGES)(found, pick)
    return found


def outcomes(decoded: Decoded, count: int) -> list[object]:
    """What became of each payload; raises when one is nowhere or twice."""
    found: dict[int, object] = {}
    rows = zip(decoded.indices.to_pylist(), decoded.rows.to_pylist(), strict=True)
    for index, outcome in (
        *((index, repr(row)) for index, row in rows),
        *((row.index, (row.stage, row.reason, row.path, row.message)) for row in decoded.dirty),
    ):
        if index in found or not 0 <= index < count:
            raise AssertionError(f"payload {index} has two outcomes")
        found[index] = outcome
    if len(found) + decoded.skipped != count:
        raise AssertionError(f"{count - len(found) - decoded.skipped} payloads have no outcome")
    return [found.get(index, "skipped") for index in range(count)]


def run(name: str, payloads: int, seed: int = 1) -> dict[str, object]:
    """Fuzz a format.

    Returns:
        Counts, and the first payload that was told otherwise alone than in its batch.
    """
    subject = FORMATS[name]
    decoders: list[RowDecoder] = [make() for make in subject.DECODERS]
    rows = dirty = skipped = 0
    wrong: list[str] = []
    for number in range(-(-payloads // BATCH)):
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        pick = random.Random(seed * 1_000_003 + number)  # noqa: S311
        decoder = decoders[number % len(decoders)]
        batch = [damaged(subject.payload, pick) for _ in range(BATCH)]
        decoded = decoder.decode(batch)
        decoded.rows.validate(full=True)
        found = outcomes(decoded, BATCH)
        for place in pick.sample(range(BATCH), ALONE):
            (alone,) = outcomes(decoder.decode([batch[place]]), 1)
            if alone != found[place]:
                wrong.append(f"{batch[place]!r:.200}: {found[place]!s:.200}, alone {alone!s:.200}")
        rows += len(decoded.indices)
        dirty += len(decoded.dirty)
        skipped += decoded.skipped
    faulthandler.cancel_dump_traceback_later()
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {
        "format": name, "payloads": rows + dirty + skipped, "rows": rows, "dirty": dirty,
        "skipped": skipped, "wrong": wrong[:5], "peak_mib": peak_mib,
    }  # fmt: skip


def main() -> int:
    """Fuzz one format; 1 when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.schema_format_fuzz", description=__doc__)
    parser.add_argument("--format", default="avro", choices=FORMATS)
    parser.add_argument("--payloads", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = run(options.format, options.payloads, options.seed)
    print(json.dumps(found))
    return int(bool(found["wrong"]) or int(str(found["peak_mib"])) > MAX_MIB)


if __name__ == "__main__":
    sys.exit(main())
