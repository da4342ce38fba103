"""Rows of JSON in messages of change logs, for the oracle: their bytes and their decoders.

Canal's rows are read as an array of structs, and one by one where the table has a key.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

import pyarrow as pa

from sluiceway.formats.changes.canal import CanalChangeDecoder
from sluiceway.formats.changes.decoder import ChangeLogDecoder
from sluiceway.formats.changes.envelopes import CANAL, DEBEZIUM, MAXWELL, Envelope
from sluiceway.formats.contract import RowDecoder
from sluiceway.types.schema import Field, IntegerType, ListType, Schema, StructType
from tools.fetched_payloads import switched

EXACT, LIBRARY, NATIVE, FETCHED = PATHS = ("exact", "library", "native", "fetched")
"""Ways to decode payloads; the last two are one where there is no native module."""


@dataclass(frozen=True, slots=True)
class ChangeLog:
    """One way to send rows of JSON.

    Attributes:
        name: For the report.
        before: Bytes of a message before its row.
        after: Bytes after it.
        path: Steps before a value's path.
        open: A decoder for the column on a path.
        column: Position of the column.
        wanted: What the column holds, made of the row's values.
    """

    name: str
    before: bytes
    after: bytes
    path: str
    open: Callable[[Schema, str], RowDecoder]
    column: int = 0
    wanted: Callable[[pa.Array], pa.Array] = lambda values: values

    def takes(self, schema: Schema) -> bool:
        """Whether a row's values have the outcome here that they have alone."""
        # A required field of a struct inside of an array is a rule that columns do not have.
        return not (self.path.endswith("]") and schema.fields[0].required)


def open_change_log(
    envelope: Envelope, schema: Schema, path: str, options: dict[str, str] | None = None
) -> RowDecoder:
    """A decoder of an envelope on a path of `PATHS`."""
    return switched(
        lambda: ChangeLogDecoder(envelope, schema, options or {}, exact_only=path == EXACT),
        native=path != LIBRARY,
    )


def _rows_of_canal(schema: Schema, path: str) -> RowDecoder:
    (of,) = schema.fields
    rows = ListType(StructType((replace(of, path=()),)))
    return open_change_log(CANAL, Schema((Field("data", rows, policy=of.policy),)), path)


def _structs(values: pa.Array) -> pa.Array:
    structs = pa.StructArray.from_arrays([values], ["v"])
    return pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), structs)


def _keyed_canal(schema: Schema, path: str) -> RowDecoder:
    del path
    key = Field("k", IntegerType(64))
    return CanalChangeDecoder(Schema((key, *schema.fields)), {"key": '["k"]'})


_MAXWELL = b'{"database":"shop","table":"t","type":"insert","old":{"v":null},"data":'
_CANAL = b'{"type":"INSERT","isDdl":false,"pkNames":["k"],"data":['
CHANGE_LOGS = (
    ChangeLog("maxwell", _MAXWELL, b"}", "data", lambda *of: open_change_log(MAXWELL, *of)),
    ChangeLog(
        "debezium",
        b'{"before":null,"op":"c","after":',
        b"}",
        "after",
        lambda *of: open_change_log(DEBEZIUM, *of),
    ),
    ChangeLog("canal", _CANAL, b"]}", "data[0]", _rows_of_canal, wanted=_structs),
    ChangeLog("canal keyed", _CANAL, b"]}", "data[0]", _keyed_canal, column=1),
)
_TURNS = count()


def next_change_log() -> tuple[ChangeLog, str]:
    """One change log and one path; all of them take turns."""
    turn = next(_TURNS)
    return CHANGE_LOGS[turn // len(PATHS) % len(CHANGE_LOGS)], PATHS[turn % len(PATHS)]
