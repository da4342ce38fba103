"""Decoders for JSON compared: CPU per record to typed columns, and what each makes of odd values.

Each engine reads the standard events as the table's columns, batches of 10,000, one thread; the
figure is the least CPU time of some rounds. Then each reads values that a type cannot hold
exactly, one payload at a time, and its answer is held against the one of docs/reference/types.md.

    python -m venv /tmp/engines
    /tmp/engines/bin/pip install duckdb pyarrow msgspec orjson pysimdjson arro3-core arro3-io
    PYTHONPATH=src:. /tmp/engines/bin/python -m bench.decode_engines

An engine that is not installed is left out. The last line is JSON.
"""

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
from pyarrow import json as arrow_json

from bench.standard_events import SHAPES, bench_events
from sluiceway.formats.json.decoder import Engine, JsonDecoder
from sluiceway.host.native_module import native_module
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema

BATCH = 10_000
DIRTY = "dirty"
# Type, JSON text, and what has to become of it.
VALUES: Sequence[tuple[str, str, object]] = (
    ("bigint", "12.0", 12),
    ("bigint", "12.5", DIRTY),
    ("bigint", '"12"', 12),
    ("bigint", "true", DIRTY),
    ("bigint", "9007199254740993", 9007199254740993),
    ("bigint", "9223372036854775808", DIRTY),
    ("int", "3000000000", DIRTY),
    ("decimal(18,2)", "0.10", Decimal("0.10")),
    ("decimal(18,2)", "0.125", DIRTY),
    ("decimal(18,2)", "99999999999999999", DIRTY),
    ("double", "1.8e309", DIRTY),
    ("double", "9007199254740993", DIRTY),
    ("double", "1e-400", DIRTY),
    ("string", "12", DIRTY),
    ("string", '"\\ud800"', DIRTY),
    ("boolean", "1", DIRTY),
)

Read = Callable[[list[bytes]], pa.Table]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An engine, and how it is made to read a schema; `whole` ones give back a table."""

    name: str
    package: str
    open: Callable[[Schema], Read]


def _ours(engine: Engine) -> Callable[[Schema], Read]:
    def opened(schema: Schema) -> Read:
        decoder = JsonDecoder(schema, engine=engine)
        return lambda payloads: pa.Table.from_batches([decoder.decode(payloads).rows])

    return opened


def _pyarrow(schema: Schema) -> Read:
    parse = arrow_json.ParseOptions(
        explicit_schema=arrow_schema(schema), unexpected_field_behavior="ignore"
    )

    def read(payloads: list[bytes]) -> pa.Table:
        data = b"\n".join((*payloads, b""))
        block = arrow_json.ReadOptions(block_size=len(data) + 1, use_threads=False)
        return arrow_json.read_json(pa.BufferReader(data), block, parse)

    return read


def _arro3(schema: Schema) -> Read:
    from arro3.core import Schema as Arro3Schema  # noqa: PLC0415 - installed for this only
    from arro3.io import read_json  # noqa: PLC0415

    wanted = Arro3Schema.from_arrow(arrow_schema(schema))

    def read(payloads: list[bytes]) -> pa.Table:
        data = BytesIO(b"\n".join((*payloads, b"")))
        return pa.table(read_json(data, wanted, batch_size=len(payloads)))

    return read


def _duckdb(schema: Schema) -> Read:
    import duckdb  # noqa: PLC0415

    connection = duckdb.connect(config={"threads": 1})
    shape = json.dumps(
        {
            field.name: _duckdb_type(arrow_schema(schema).field(field.name).type)
            for field in schema.fields
        }
    )

    def read(payloads: list[bytes]) -> pa.Table:
        texts = pa.table({"v": pa.array(payloads, pa.binary()).cast(pa.string())})
        connection.register("payloads", texts)
        query = f"SELECT unnest(json_transform(v, '{shape}')) FROM payloads"  # noqa: S608
        found = connection.sql(query).to_arrow_table()
        connection.unregister("payloads")
        return found

    return read


def _duckdb_type(kind: pa.DataType) -> object:
    if pa.types.is_struct(kind):
        return {field.name: _duckdb_type(field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_duckdb_type(kind.value_type)]
    names = {
        "int64": "BIGINT",
        "int32": "INTEGER",
        "string": "VARCHAR",
        "double": "DOUBLE",
        "bool": "BOOLEAN",
    }
    return names.get(str(kind), str(kind).replace("decimal128", "DECIMAL").upper())


def _objects(loads: Callable[[bytes], Any]) -> Callable[[Schema], Read]:
    """Python objects first, columns from them; a decimal passes through a double."""

    def opened(schema: Schema) -> Read:
        columns = arrow_schema(schema)

        def read(payloads: list[bytes]) -> pa.Table:
            rows = [loads(payload) for payload in payloads]
            arrays = []
            for column in columns:
                found = [row.get(column.name) for row in rows]
                if pa.types.is_decimal(column.type):
                    found = [None if value is None else Decimal(str(value)) for value in found]
                arrays.append(pa.array(found, column.type))
            return pa.Table.from_arrays(arrays, schema=columns)

        return read

    return opened


def _orjson(schema: Schema) -> Read:
    import orjson  # noqa: PLC0415

    return _objects(orjson.loads)(schema)


def _simdjson(schema: Schema) -> Read:
    import simdjson  # noqa: PLC0415

    parser = simdjson.Parser()
    return _objects(lambda payload: parser.parse(payload).as_dict())(schema)


def _msgspec(schema: Schema) -> Read:
    import msgspec  # noqa: PLC0415

    kinds = [(f.name, _msgspec_type(f.type), None) for f in arrow_schema(schema)]
    decode = msgspec.json.Decoder(msgspec.defstruct("Row", kinds, gc=False)).decode

    def read(payloads: list[bytes]) -> pa.Table:
        rows = [decode(payload) for payload in payloads]
        columns = arrow_schema(schema)
        arrays = [
            pa.array([_plain(getattr(row, column.name)) for row in rows], column.type)
            for column in columns
        ]
        return pa.Table.from_arrays(arrays, schema=columns)

    return read


def _msgspec_type(kind: pa.DataType) -> Any:
    import msgspec  # noqa: PLC0415

    if pa.types.is_struct(kind):
        inner = [(field.name, _msgspec_type(field.type)) for field in kind]
        return msgspec.defstruct("Inner", inner, gc=False) | None
    if pa.types.is_list(kind):
        return list[_msgspec_type(kind.value_type)] | None  # type: ignore[misc]
    if pa.types.is_decimal(kind):
        return Decimal | None
    names: dict[str, Any] = {"string": str, "double": float, "bool": bool}
    return names.get(str(kind), int) | None


def _plain(value: Any) -> Any:
    fields = getattr(value, "__struct_fields__", None)
    return value if fields is None else {name: getattr(value, name) for name in fields}


CANDIDATES = (
    Candidate("native, exact", "sluiceway_native", _ours("native")),
    Candidate("pyarrow, exact (the library path)", "pyarrow", _ours("library")),
    Candidate("pyarrow.json", "pyarrow", _pyarrow),
    Candidate("arro3.io (arrow-json)", "arro3.io", _arro3),
    Candidate("DuckDB json_transform", "duckdb", _duckdb),
    Candidate("msgspec, typed", "msgspec", _msgspec),
    Candidate("orjson, then columns", "orjson", _orjson),
    Candidate("pysimdjson, then columns", "simdjson", _simdjson),
)


def cpu_us(read: Read, events: list[bytes], rounds: int) -> float:
    """Least CPU time per record of some rounds, in microseconds."""
    batches = [events[start : start + BATCH] for start in range(0, len(events), BATCH)]
    read(batches[0])
    spent = []
    for _ in range(rounds):
        began = time.process_time()
        rows = sum(read(batch).num_rows for batch in batches)
        spent.append(time.process_time() - began)
        if rows != len(events):
            raise RuntimeError(f"{rows} rows of {len(events)} events")
    return min(spent) / len(events) * 1e6


def verdicts(candidate: Candidate) -> dict[str, list[str]]:
    """What the engine makes of the odd values: right, refused though fine, changed in silence."""
    found: dict[str, list[str]] = {"right": [], "refused": [], "changed": []}
    for hive, text, expected in VALUES:
        schema = Schema((Field("v", parse_hive_type(hive)),))
        told = f"{text} -> {hive}"
        try:
            rows = candidate.open(schema)([f'{{"v":{text}}}'.encode()]).column(0).to_pylist()
        except Exception:  # noqa: BLE001 - each engine has errors of its own
            rows = []
        got = rows[0] if rows else DIRTY
        if got == expected and type(got) is type(expected):
            found["right"].append(told)
        elif got == DIRTY:
            found["refused"].append(told)
        else:
            found["changed"].append(f"{told} = {got!r}")
    return found


def main() -> int:
    """Read the arguments, measure, print a table on standard error and one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m bench.decode_engines")
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    events = list(bench_events(given.events))
    kinds = SHAPES["standard"].columns.items()
    schema = Schema(tuple(Field(name, parse_hive_type(hive)) for name, hive in kinds))
    results = {}
    for candidate in CANDIDATES:
        root = candidate.package.partition(".")[0]
        missing = (
            native_module() is None
            if root == "sluiceway_native"
            else (importlib.util.find_spec(root) is None)
        )
        if missing:
            print(f"{candidate.name}: not installed", file=sys.stderr)
            continue
        spent = cpu_us(candidate.open(schema), events, given.rounds)
        judged = verdicts(candidate)
        results[candidate.name] = {"cpu_us": round(spent, 2), **judged}
        print(
            f"{candidate.name:34} {spent:6.2f} us  right {len(judged['right'])}",
            end="",
            file=sys.stderr,
        )
        print(
            f"  refused {len(judged['refused'])}  changed {len(judged['changed'])}", file=sys.stderr
        )
    print(json.dumps({"bench": "decode_engines", "events": given.events, "engines": results}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
