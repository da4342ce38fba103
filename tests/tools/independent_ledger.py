"""Judges a ledger and the files that it names, with no code of the product.

Own parser, own hashes, own sums over the ranges: what a second implementation makes of the format
that docs/contributors/architecture.md describes. Rows and values are the independent reader's part.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

_CLASSES = ("written", "dirty", "late", "filtered", "skipped")


@dataclass
class _Log:
    """What the records read so far add up to."""

    head: str = "0" * 64
    term: int = 0
    epoch: int = -1
    ledger: str = ""
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    lanes: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    taken: set[tuple[str, int]] = field(default_factory=set)
    identities: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)


def ledger_faults(root: Path, route: str, *, job: str = "", named: str = "") -> list[str]:
    """Everything that is wrong with a table's ledger, in words.

    Args:
        root: The table's folder.
        route: Whose ledger.
        job: Whose the ledger has to be; empty: not compared.
        named: The table's property `sluiceway.ledger`; empty: not compared.
    """
    system = root / "_sluiceway"
    log = _Log()
    faults: list[str] = []
    try:
        for seq, raw in enumerate(_slots(system / route / "log")):
            _take(log, seq, raw, root, system / route)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        faults.append(f"log: {type(error).__name__}: {error}")
    faults += [f"{final} is gone" for final in sorted(log.gone - log.removed)]
    faults += _identity_faults(system / "OWNER", log, route, job, named)
    known = {str(path) for path in log.files.values()}
    listed = [*root.rglob("*"), *system.rglob("*")]
    for path in {each for each in listed if each.is_file()}:
        inner = path.relative_to(root).parts
        ours = inner[0] != "_sluiceway" or inner[2:3] == ("dirty",) or inner[1:2] != (route,)
        if ours and str(path) not in known and inner != ("_sluiceway", "OWNER"):
            faults.append(f"nobody names {path}")
    return faults


def _slots(folder: Path) -> Iterator[bytes]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    if not found:
        raise ValueError("there is no log")
    for seq, path in enumerate(found):
        if path != folder / f"{seq // 10_000:016d}" / f"{seq:020d}.json":
            raise ValueError(f"{path} is not slot {seq}")
        yield path.read_bytes()


def _take(log: _Log, seq: int, raw: bytes, root: Path, system: Path) -> None:
    record = json.loads(raw, object_pairs_hook=_unique)
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    _hold(text.encode() + b"\n" == raw, f"slot {seq} is not canonical")
    _hold(record["seq"] == seq and record["prev"] == log.head, f"slot {seq} breaks the chain")
    log.head = hashlib.sha256(raw).hexdigest()
    body = record["body"]
    if record["type"] == "FENCE":
        _hold(record["term"] == log.term + 1, f"slot {seq}: term {record['term']}")
        _hold(log.ledger in ("", body["ledger"]), f"slot {seq}: another ledger")
        log.term, log.epoch, log.ledger = record["term"], -1, body["ledger"]
        return
    _hold(record["term"] == log.term, f"slot {seq}: term {record['term']} after {log.term}")
    if record["type"] == "SOURCES":
        for pin in body["partitions"]:
            key = (pin["topic"], pin["partition"])
            log.ends.setdefault(key, int(pin["start"]))
            log.identities[key] = (pin["cluster_id"], pin["topic_id"])
    elif record["type"] == "LANE":
        _open_lane(log, seq, body)
    elif record["type"] in ("DATA", "LANE_DATA"):
        _hold(body["epoch"] > log.epoch, f"slot {seq}: epoch {body['epoch']}")
        log.epoch = body["epoch"]
        (_take_ranges if record["type"] == "DATA" else _take_lane_ranges)(log, seq, body)
        _hold_sums(seq, body)
        for file in (*body["files"], *body["dirty_files"], *body.get("late_files", ())):
            _take_file(log, file, root, system)
        log.rows |= {file["final"]: int(file["rows"]) for file in body["files"]}
    elif record["type"] == "REPLACE":
        _take_replace(log, seq, body, root, system)
    elif record["type"] == "EXPIRE":
        for each in body["partitions"]:
            old = log.folders.get(each["partition"], each["partition"])
            gone = {final for final in log.rows if final.rpartition("/")[0] == old}
            named = {f"{old}/{file['name']}" for file in each.get("removed", ())}
            _hold(named in (set(), gone), f"slot {seq}: live files of {each['partition']}")
            log.removed |= gone
            log.rows = {final: rows for final, rows in log.rows.items() if final not in gone}
            log.folders[each["partition"]] = each["next_folder"]
    else:
        known = ("SNAPSHOT", "RESET", "SOURCE_CHANGE", "INTENT", "ABANDON", "READY", "COUNTS")
        _hold(record["type"] in known, f"slot {seq}: {record['type']}")


def _take_replace(log: _Log, seq: int, body: dict[str, Any], root: Path, system: Path) -> None:
    """Exactly the live files go; as many rows come."""
    old = log.folders.get(body["partition"], body["partition"])
    live = {final for final in log.rows if final.rpartition("/")[0] == old}
    _hold(live == {f"{old}/{each['name']}" for each in body["removed"]}, f"slot {seq}: live files")
    rows = sum(log.rows.pop(final) for final in live)
    _hold(rows == sum(int(file["rows"]) for file in body["added"]), f"slot {seq}: {rows} rows")
    log.removed |= live
    log.folders[body["partition"]] = body["folder"]
    for file in body["added"]:
        _hold(file["final"].rpartition("/")[0] == body["folder"], f"slot {seq}: {file['final']}")
        _take_file(log, file, root, system)
        log.rows[file["final"]] = int(file["rows"])


def _open_lane(log: _Log, seq: int, body: dict[str, Any]) -> None:
    """The rows of a lane in order, by file; no other lane has one of them."""
    _hold(body["lane"] not in log.lanes, f"slot {seq}: lane {body['lane']} again")
    rows: dict[str, list[int]] = {}
    for each in body["ranges"]:
        for row in range(int(each["start"]), int(each["stop"])):
            _hold((each["source"], row) not in log.taken, f"slot {seq}: {each} is taken")
            log.taken.add((each["source"], row))
            rows.setdefault(each["source"], []).append(row)
    log.lanes[body["lane"]] = rows


def _take_lane_ranges(log: _Log, seq: int, body: dict[str, Any]) -> None:
    counts = {name: int(value) for name, value in body["counts"].items()}
    read = 0
    for span in body["ranges"]:
        if span["source"].startswith("late:"):
            name = span["source"].rpartition("/")[2]
            log.removed |= {final for final in log.files if final.endswith(f"/{name}")}
        left = log.lanes[body["lane"]][span["source"]]
        wanted = list(range(int(span["start"]), int(span["end"])))
        _hold(bool(wanted) and left[: len(wanted)] == wanted, f"slot {seq}: {span} does not follow")
        del left[: len(wanted)]
        read += len(wanted)
    outcome = sum(value for name, value in counts.items() if name != "read")
    _hold(read == counts["read"] == outcome, f"slot {seq}: {read} read, {counts}")


def _take_ranges(log: _Log, seq: int, body: dict[str, Any]) -> None:
    read = 0
    for span in body["ranges"]:
        key = (span["topic"], span["partition"])
        start, end = int(span["start"]), int(span["end"])
        _hold(log.ends[key] == start, f"slot {seq}: {key} from {start}, not {log.ends[key]}")
        _hold(
            log.identities[key] == (span["cluster_id"], span["topic_id"]),
            f"slot {seq}: {key} is another topic",
        )
        _hold(end - start == int(span["rows"]) + int(span["gaps"]) >= 0, f"slot {seq}: {key} rows")
        log.ends[key] = end
        read += int(span["rows"])
    counts = {name: int(value) for name, value in body["counts"].items()}
    outcome = sum(counts[name] for name in _CLASSES) - counts.get("expanded", 0)
    _hold(read == counts["read"] == outcome, f"slot {seq}: {read} read, {counts}")


def _hold_sums(seq: int, body: dict[str, Any]) -> None:
    counts = {name: int(value) for name, value in body["counts"].items()}
    for name, files in (("written", "files"), ("dirty", "dirty_files"), ("late", "late_files")):
        rows, counted = sum(int(file["rows"]) for file in body.get(files, ())), counts.get(name, 0)
        _hold(rows == counted, f"slot {seq}: {rows} {name} in files, {counted} counted")
    for file in body.get("late_files", ()):
        aside = file["final"].split("/")[:3:2] == ["_sluiceway", "late"]
        _hold(aside, f"slot {seq}: late rows in {file['final']}")


def _take_file(log: _Log, file: dict[str, Any], root: Path, system: Path) -> None:
    final = file["final"]
    _hold(final not in log.files, f"{final} is named twice")
    path = root / final
    if not path.exists():  # committed, not yet published
        path = system / "stage" / file["staged"]
    log.files[final] = path
    if not path.exists():  # a later record has to have removed it
        log.gone.add(final)
        return
    raw = path.read_bytes()
    _hold(len(raw) == int(file["size_bytes"]), f"{final} has {len(raw)} bytes")
    _hold(google_crc32c.value(raw) == int(file["crc32c"], 16), f"{final} has another checksum")
    try:
        rows = pq.ParquetFile(pa.BufferReader(raw)).metadata.num_rows
    except pa.ArrowException as error:
        raise ValueError(f"{final}: {error}") from error
    _hold(rows == int(file["rows"]), f"{final} has {rows} rows")


def _identity_faults(path: Path, log: _Log, route: str, job: str, named: str) -> list[str]:
    try:
        owner = json.loads(path.read_bytes())
        location = owner["location"]
        found = (owner["ledger"], owner["route"], owner["job"])
    except (ValueError, KeyError, TypeError, OSError) as error:
        return [f"OWNER: {type(error).__name__}: {error}"]
    faults = []
    if found != (log.ledger or owner["ledger"], route, job or owner["job"]):
        faults.append(f"OWNER says {found}, the log is of {log.ledger}")
    if named and named != f"{owner['ledger']}@{location}":
        faults.append(f"the table names {named}, OWNER {owner['ledger']}@{location}")
    return faults


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _hold(len(dict(pairs)) == len(pairs), "a key comes twice")
    return dict(pairs)


def _hold(right: bool, what: str) -> None:  # noqa: FBT001
    if not right:
        raise ValueError(what)
