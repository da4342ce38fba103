"""Feeds damaged and forged ledger records to the decoder and to the fold.

python -m tools.record_fuzz --records 1000000 --workers 2

Whatever comes, the decoder answers with a record whose canonical bytes are the ones that it was
given, or with its own error; and in front of its successor no record counts but the one that the
successor's hash names. The last line of output is JSON; the exit code is 1 when any of this failed.
"""

import argparse
import copy
import json
import pickle
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from sluiceway.errors import InvariantError, LedgerCorruptError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.placing import placed
from sluiceway.ledger.records import (
    MAX_RECORD_BYTES,
    Body,
    DataRecord,
    decode_record,
    encode_record,
)
from sluiceway.upkeep.partition_bodies import (
    abandon_body,
    expire_body,
    intent_body,
    ready_body,
    replace_body,
)
from tools.ledger_records import data, fence, record, sources, span, staged, with_late

_HOUR = "dt=20261120/hr=08"
_SHARD = 20_000
_KEPT_FAILURES = 5


@dataclass(slots=True)
class FuzzReport:
    """What came of the records.

    Attributes:
        refused: By the decoder, with its own error.
        unchained: Read by the decoder; the fold or the next record's hash refused them.
        unchanged: Mutations that gave the same bytes again; not counted in `records`.
        accepted: Wrong: other bytes counted as the record of the slot.
        untyped: Wrong: other errors, or records that are not the bytes they were read from.
        by_kind: Records of each mutation.
        failures: A few of the wrong ones.
    """

    records: int = 0
    refused: int = 0
    unchained: int = 0
    unchanged: int = 0
    accepted: int = 0
    untyped: int = 0
    slowest_ms: float = 0.0
    by_kind: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: "FuzzReport") -> None:
        """Take in another shard's."""
        for name in ("records", "refused", "unchained", "unchanged", "accepted", "untyped"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.slowest_ms = max(self.slowest_ms, other.slowest_ms)
        self.by_kind += other.by_kind
        self.failures = (self.failures + other.failures)[:_KEPT_FAILURES]


# ---- lawful records -------------------------------------------------------------------------


@cache
def lawful_log() -> tuple[bytes, ...]:
    """A log that folds: two terms, three source partitions, and a partition with a long life."""
    found: list[bytes] = []
    bodies: list[Callable[[Fold], Body]] = [
        lambda _: fence(),
        lambda _: sources(0, 1, 2),
        lambda f: data(f.term, 0, span(0, 0, 10), span(1, 0, 7, gaps=2), dirty=3),
        lambda f: data(f.term, 1, span(2, 0, 2**40)),
        lambda _: fence(driver="d2"),
        lambda f: data(f.term, 0, span(0, 10, 12), span(2, 2**40, 2**40 + 5), dirty=1),
        lambda f: with_late(data(f.term, 1, span(1, 7, 9)), 1),
        lambda f: _made(intent_body(f, _HOUR, "compact")),
        lambda f: _made(replace_body(f, 7, _live(found), staged(f, 7, f.partitions[_HOUR].rows))),
        lambda f: placed(replace(data(f.term, 2, span(1, 9, 11)), closed=(_HOUR,)), f),
        lambda f: _made(ready_body(f, _HOUR)),
        lambda f: _made(intent_body(f, _HOUR, "compact")),
        lambda f: _made(abandon_body(f, 11, "fuzz")),
        lambda f: _made(expire_body(f, [_HOUR], "fuzz")),
    ]
    fold = Fold()
    for make in bodies:
        raw = encode_record(made := record(fold, make(fold)))
        fold.apply(made, raw)
        fold.set_published_through(fold.next_seq)
        found.append(raw)
    return tuple(found)


def _made(body: Body | None) -> Body:
    assert body is not None
    return body


def _live(log: list[bytes]) -> list[FileRecord]:
    """Clean files of all epochs; they all go into one partition."""
    bodies = (decode_record(raw, "slot").body for raw in log)
    return [file for body in bodies if isinstance(body, DataRecord) for file in body.files]


@cache
def _folds() -> tuple[bytes, ...]:
    """State in front of each slot of the lawful log, pickled: the fastest way to a copy."""
    fold, found = Fold(), []
    for raw in lawful_log():
        found.append(pickle.dumps(fold))
        fold.apply(decode_record(raw, "slot"), raw)
    return tuple(found)


# ---- mutations ------------------------------------------------------------------------------


def _truncate(raw: bytes, pick: random.Random) -> bytes:
    return raw[: pick.randrange(len(raw))]


def _flip(raw: bytes, pick: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(pick.choice((1, 1, 1, 2, 8))):
        changed[pick.randrange(len(raw))] ^= 1 << pick.randrange(8)
    return bytes(changed)


def _digit(raw: bytes, pick: random.Random) -> bytes:
    """Another digit for a digit: the change that stays JSON."""
    places = [place for place, byte in enumerate(raw) if 48 <= byte <= 57]
    place = pick.choice(places)
    return raw[:place] + b"%d" % pick.randrange(10) + raw[place + 1 :]


def _insert(raw: bytes, pick: random.Random) -> bytes:
    place = pick.randrange(len(raw))
    return raw[:place] + pick.randbytes(pick.randrange(1, 9)) + raw[place:]


def _cut_out(raw: bytes, pick: random.Random) -> bytes:
    place = pick.randrange(len(raw))
    return raw[:place] + raw[place + pick.randrange(1, 40) :]


def _splice(raw: bytes, pick: random.Random) -> bytes:
    other = pick.choice(lawful_log())
    return raw[: pick.randrange(len(raw))] + other[pick.randrange(len(other)) :]


def _duplicate_key(raw: bytes, pick: random.Random) -> bytes:
    place = pick.choice([i for i, byte in enumerate(raw) if byte == ord("{")]) + 1
    key = pick.choice((b"seq", b"term", b"prev", b"topic", b"rows", b"type", b"epoch"))
    return raw[:place] + b'"%s":1,"%s":1,' % (key, key) + raw[place:]


def _white_space(raw: bytes, pick: random.Random) -> bytes:
    place = pick.choice([i for i, byte in enumerate(raw) if byte in b"{}[],:"])
    return raw[:place] + pick.choice((b" ", b"\n", b"\t", b"\xef\xbb\xbf")) + raw[place:]


def _other_encoding(raw: bytes, pick: random.Random) -> bytes:
    text = raw.decode()
    if pick.random() < 0.5:
        return text.encode(pick.choice(("utf-16", "utf-32", "utf-8-sig", "utf-7")))
    return json.dumps(json.loads(text), indent=pick.choice((None, 1)), sort_keys=True).encode()


def _big_number(raw: bytes, pick: random.Random) -> bytes:
    digits = b"9" * pick.choice((19, 20, 39, 300, 4_299, 4_301, 50_000))
    numbers = (digits, b"-" + digits, b"1e999", b"1E400", digits + b"." + digits, b"-0", b"00")
    name = pick.choice((b"seq", b"term", b"published_through", b"effects_through", b"pid"))
    return _replace_value(raw, name, pick.choice(numbers))


def _big_text_number(raw: bytes, pick: random.Random) -> bytes:
    texts = ("9" * 4_301, "-0", "+1", " 1", "1_0", "\u0661", "\uff11", "1e3", "0x1", "", "1.0")
    name = pick.choice((b"rows", b"start", b"end", b"size_bytes", b"started_at_ms", b"read"))
    return _replace_value(raw, name, b'"' + pick.choice(texts).encode() + b'"')


def _replace_value(raw: bytes, name: bytes, value: bytes) -> bytes:
    before, found, after = raw.partition(b'"%s":' % name)
    if not found:
        return raw + value
    end = min(place for place in (after.find(b","), after.find(b"}")) if place >= 0)
    return before + found + value + after[end:]


def _deep(raw: bytes, pick: random.Random) -> bytes:
    depth = pick.choice((60, 500, 1_500, 20_000, 100_000))
    opening, closing = pick.choice(((b"[", b"]"), (b'{"a":', b"}")))
    name = pick.choice((b"body", b"engine", b"files", b"timings_ms", b"bounds"))
    return _replace_value(raw, name, opening * depth + closing * pick.choice((0, depth)))


_HOSTILE: tuple[Any, ...] = (
    None, True, False, -1, 0, 2**63, 2**200, 1.5, -0.0, "", "..", "/etc/passwd", "a\x00b",
    "../../x", "\ud800", "\u202e", "x" * 10_000, [], {}, [[]], {"": ""}, [None], "NaN", "0" * 64,
)  # fmt: skip


def _forge(raw: bytes, pick: random.Random) -> bytes:
    """Canonical bytes of a record with one value, field or type changed."""
    plain = json.loads(raw)
    places = list(_places(plain))
    holder, key = pick.choice(places)
    match pick.randrange(4):
        case 0:
            holder[key] = pick.choice(_HOSTILE)
        case 1 if isinstance(holder, dict):
            del holder[key]
        case 2 if isinstance(holder, dict):
            holder[pick.choice(("surprise", "", "\u0000", "__class__"))] = pick.choice(_HOSTILE)
        case _:
            other_holder, other_key = pick.choice(places)
            holder[key] = copy.deepcopy(other_holder[other_key])
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def _places(plain: Any) -> list[tuple[Any, Any]]:
    keys = list(plain) if isinstance(plain, dict) else range(len(plain))
    found: list[tuple[Any, Any]] = []
    for key in keys:
        found.append((plain, key))
        if isinstance(plain[key], dict | list):
            found += _places(plain[key])
    return found


def _other_slot(raw: bytes, pick: random.Random) -> bytes:
    """A whole lawful record, of another place or of another log."""
    del raw
    return pick.choice(lawful_log())


def _oversized(raw: bytes, pick: random.Random) -> bytes:
    size = MAX_RECORD_BYTES if pick.random() < 0.002 else pick.choice((10_000, 300_000))
    return _replace_value(raw, b"engine", b'"' + b"x" * size + b'"')


def _noise(raw: bytes, pick: random.Random) -> bytes:
    return pick.randbytes(pick.randrange(0, len(raw)))


MUTATIONS: dict[str, tuple[int, Callable[[bytes, random.Random], bytes]]] = {
    "truncated": (10, _truncate),
    "flipped": (20, _flip),
    "digit": (10, _digit),
    "inserted": (5, _insert),
    "cut out": (5, _cut_out),
    "spliced": (8, _splice),
    "key twice": (5, _duplicate_key),
    "white space": (3, _white_space),
    "other encoding": (3, _other_encoding),
    "big number": (5, _big_number),
    "big number in text": (5, _big_text_number),
    "deep": (1, _deep),
    "forged": (25, _forge),
    "other slot": (3, _other_slot),
    "oversized": (1, _oversized),
    "noise": (2, _noise),
}
"""Name -> (weight, mutation)."""


# ---- judging --------------------------------------------------------------------------------


def fuzz(count: int, seed: int) -> FuzzReport:
    """Judge `count` mutated records. The seed decides them all."""
    pick = random.Random(seed)  # noqa: S311 - a test has to be repeatable
    names = list(MUTATIONS)
    weights = [MUTATIONS[name][0] for name in names]
    report = FuzzReport()
    while report.records < count:
        (name,) = pick.choices(names, weights)
        slot = pick.randrange(len(lawful_log()) - 1)
        raw = MUTATIONS[name][1](lawful_log()[slot], pick)
        if raw == lawful_log()[slot]:
            report.unchanged += 1
            continue
        report.records += 1
        report.by_kind[name] += 1
        started = time.perf_counter()
        verdict = judge(raw, slot)
        report.slowest_ms = max(report.slowest_ms, (time.perf_counter() - started) * 1000)
        setattr(report, verdict, getattr(report, verdict) + 1)
        if verdict in ("accepted", "untyped") and len(report.failures) < _KEPT_FAILURES:
            report.failures.append(f"seed {seed}, {name}, slot {slot}: {raw[:400]!r}")
    return report


def judge(raw: bytes, slot: int) -> str:
    """What becomes of bytes that stand in a slot of the lawful log: a counter of the report."""
    try:
        made = decode_record(raw, "slot")
    except LedgerCorruptError:
        return "refused"
    except Exception:  # noqa: BLE001 - exactly these are looked for
        return "untyped"
    if encode_record(made) != raw:
        return "untyped"
    fold: Fold = pickle.loads(_folds()[slot])  # noqa: S301 - our own bytes
    try:
        fold.apply(made, raw)
        successor = lawful_log()[slot + 1]
        fold.apply(decode_record(successor, "slot"), successor)
    except InvariantError:
        return "unchained"
    except Exception:  # noqa: BLE001 - as above
        return "untyped"
    return "accepted"


def main() -> int:
    """Read the arguments, fuzz, print the line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    given = parser.parse_args()
    started = time.monotonic()
    total = FuzzReport()
    shards = [min(_SHARD, given.records - at) for at in range(0, given.records, _SHARD)]
    seeds = range(given.seed, given.seed + len(shards))
    with ProcessPoolExecutor(given.workers) as pool:
        for done in pool.map(fuzz, shards, seeds):
            total.add(done)
    for failure in total.failures:
        print(failure, file=sys.stderr)
    peak_kib = max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    closing = {
        "records": total.records,
        "refused": total.refused,
        "unchained": total.unchained,
        "accepted_with_wrong_hash": total.accepted,
        "untyped_errors": total.untyped,
        "kinds": len(total.by_kind),
        "slowest_ms": round(total.slowest_ms, 1),
        "peak_mib": peak_kib // 1024,
        "seconds": round(time.monotonic() - started),
        "seed": given.seed,
    }
    print(json.dumps(closing))
    return int(total.accepted + total.untyped > 0 or total.records < given.records)


if __name__ == "__main__":
    sys.exit(main())
