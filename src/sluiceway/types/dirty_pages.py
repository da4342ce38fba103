"""What each dirty reason means and what to do about it: the data of its documentation."""

from dataclasses import dataclass

from sluiceway.types.dirty import DirtyReason


@dataclass(frozen=True, slots=True)
class ReasonPage:
    """The documentation of a reason.

    Attributes:
        stages: Where in a row's way it is found.
        meaning: Meaning in a line.
        example: A payload or value, the column, and why.
        todo: What the user does.
    """

    stages: str
    meaning: str
    example: str
    todo: str


_FIX = "correct the producer"

PAGES: dict[DirtyReason, ReasonPage] = {
    DirtyReason.BROKEN: ReasonPage(
        "decode",
        "the payload is not JSON, not Avro or Protobuf of its schema, or not one line of text",
        '`{"a":1`, `{"a":01}`, two objects in one payload; `a,"b` as CSV',
        "look at the raw value: it was cut, or is of another format",
    ),
    DirtyReason.ENCODING: ReasonPage(
        "decode, convert",
        "not UTF-8, a byte order mark, half a surrogate pair; a NUL in a string",
        'the byte 0xFF in a string; `"a\\u0000"` for a string column',
        f"{_FIX}; `on_bad_text: replace` puts U+FFFD in its place, a binary column with "
        "`format: utf8` keeps the bytes",
    ),
    DirtyReason.EMPTY: ReasonPage(
        "decode",
        "no value, no bytes, or white space only",
        "a tombstone of a compacted topic",
        "`tombstones: skip` counts records without a value instead",
    ),
    DirtyReason.UNKNOWN_SCHEMA: ReasonPage(
        "decode",
        "the registry or the job file does not have the schema that the payload names, or it is "
        "of another format",
        "the id 7 in Confluent's wire format, while the registry ends at 5",
        "register the schema, or name the right registry; then replay",
    ),
    DirtyReason.NOT_AN_OBJECT: ReasonPage(
        "decode",
        "JSON or Avro, but an array, a string, a number, `null` ...",
        '`[{"a":1}]`',
        "send one object a record",
    ),
    DirtyReason.DUPLICATE_KEY: ReasonPage(
        "convert",
        "a key that a column, a map or a text of JSON reads came more than once",
        '`{"a":1,"a":2}`; `{"1":1,"01":2}` as `map<int,int>`',
        _FIX,
    ),
    DirtyReason.MISSING: ReasonPage(
        "convert",
        "a required column has no such key; a line has too few fields (decode)",
        "`{}` for a column with `required: true`; `1,2` for three columns of CSV",
        "correct `path`, give a `default`, or take `required` away; `csv.missing: null`",
    ),
    DirtyReason.NULL: ReasonPage(
        "convert, event_time",
        "a required column is null; there is no event time",
        '`{"id":null}` for a column with `required: true`',
        "give a `default`, or take `required` away",
    ),
    DirtyReason.WRONG_TYPE: ReasonPage(
        "convert",
        "another kind of JSON value than the type takes",
        "`true` for `bigint`; `12` for `string`; a number for a time without `unit`",
        "correct the column's type, say `on_lossy: text`, or give a time its `unit` or `format`",
    ),
    DirtyReason.NOT_INTEGRAL: ReasonPage(
        "convert",
        "a fraction for an integer type",
        "`12.5` for `bigint`",
        "make the column a decimal, or say `on_lossy`: null, truncate, round(mode)",
    ),
    DirtyReason.OVERFLOW: ReasonPage(
        "convert",
        "out of the type's range, or it would change",
        "`300` for `tinyint`; `9007199254740993` for `double`",
        "make the column wider, or say `on_overflow`: null, clamp; for floats `on_lossy`: null, "
        "round(half_even)",
    ),
    DirtyReason.SCALE: ReasonPage(
        "convert",
        "more places than the type has",
        "`0.125` for `decimal(18,2)`; nanoseconds for a timestamp; `1e-400` for `double`",
        "give the type more places, or say `on_lossy`: null, truncate, round(mode)",
    ),
    DirtyReason.TOO_LONG: ReasonPage(
        "convert",
        "a string with more characters than the type",
        '`"abcd"` for `varchar(3)`',
        "make the type longer, or say `on_lossy`: null, truncate",
    ),
    DirtyReason.TRAILING_BLANKS: ReasonPage(
        "convert",
        "blanks at the end of a string that `char(n)` cannot tell from its own",
        '`"a "` for `char(3)`; `"a  "`, which fills it, is fine',
        "make the column a varchar, or say `on_lossy`: null, truncate",
    ),
    DirtyReason.BAD_TEXT: ReasonPage(
        "convert",
        "a string that is no number, for a number; no boolean's word; none of the binary format",
        '`"abc"`, `""`, `" 12"` for `bigint`',
        f"{_FIX}; `trim: true` takes blanks around a number, `non_finite` NaN and infinities",
    ),
    DirtyReason.BAD_TIME: ReasonPage(
        "convert, event_time",
        "no such time, another shape, or out of range",
        '`"2026-02-29"`; `"2026-11-20T08:00:00"` without offset; `23:59:60`',
        "say `format` and `timezone`, `on_lossy` for times finer than a microsecond, or "
        "`on_impossible_time: null`",
    ),
    DirtyReason.NOT_A_CHANGE: ReasonPage(
        "decode",
        "a message of a change log that changes no row, or a change of a keyed table without a "
        "value that the database did not log",
        '`{"type":"table-alter",...}` of Maxwell; `op: c` of Debezium without `after`',
        "`other_messages: skip` counts DDL and transactions; `ALTER TABLE ... REPLICA IDENTITY "
        "FULL` has PostgreSQL log all values",
    ),
    DirtyReason.KEY_MISMATCH: ReasonPage(
        "decode",
        "a change of a keyed table whose record has another key than the row, or none",
        'the record key `{"id":8}` with `"after":{"id":7}`; no record key at all',
        "write the primary key as the record's key (`message.key.columns` of Debezium), or use "
        "`key_order: one_partition`; for Canal name its `pkNames` in `key`",
    ),
    DirtyReason.KEY_CHANGED: ReasonPage(
        "decode",
        "an update of a keyed table's key, sent as one change, which cannot be kept in order",
        '`{"type":"update","data":{"id":8},"old":{"id":7}}` of Maxwell',
        "read a topic of one partition with `key_order: one_partition`, or delete and insert the "
        "row in the database",
    ),
    DirtyReason.ORDER_UNKNOWN: ReasonPage(
        "write",
        "a replayed change of a keyed table, and the table may have a later change of its key",
        "a row of a topic that `offsets reset` has moved since; a row after which files of changes "
        "were removed; a `TRUNCATE`",
        "have the source send the row again, by an update that changes nothing, then `sluiceway "
        "dirty purge JOB`",
    ),
    DirtyReason.UNEXPECTED_FIELD: ReasonPage(
        "decode, convert",
        "a key that no column reads, with `unknown_fields: dirty`; "
        "a line with more fields than columns",
        '`{"a":1,"b":2}` for a column `a`; `1,2,3` for two columns of CSV',
        "add a column, say `unknown_fields: keep` (JSON) or `ignore`, "
        "name all `fields` of the line",
    ),
    DirtyReason.TOO_DEEP: ReasonPage(
        "decode",
        "nested deeper than 100 levels",
        "101 arrays in one another",
        _FIX,
    ),
    DirtyReason.BAD_PARTITION_VALUE: ReasonPage(
        "partition",
        "in Hive the value cannot be a folder: empty, over 255 bytes when escaped or 256 "
        "characters, or Hive's name for null. In any table: NUL, a local time outside of the "
        "years 0001 to 9999. In Iceberg: a `truncate` below the least number of the type. "
        "With `route_by`: it names no table",
        '`""` in a column that rows of a Hive table are partitioned by',
        "partition by a computed column that replaces odd values",
    ),
    DirtyReason.UNREPRESENTABLE: ReasonPage(
        "write",
        "the table's file format cannot hold the value so that readers find it again",
        "a null in CSV; NaN in JSON; a line break in text without `escape.delim`; a day before "
        "1582-10-15 in ORC, or one of the ten before it in text; microseconds in Avro",
        "give the table an escape, the column a `default`, or take another file format",
    ),
    DirtyReason.FUTURE_TIME: ReasonPage(
        "event_time",
        "the event time is further ahead of the clock than `event_time.max_future`",
        "a time in the year 2106, or of a device whose clock is a day ahead",
        f"{_FIX}, or raise `max_future`, then replay",
    ),
    DirtyReason.OLD_TIME: ReasonPage(
        "event_time",
        "the event time is before `event_time.min_time`",
        "`0` of a device that does not know the time, with `min_time: 2020-01-01T00:00:00Z`",
        f"{_FIX}, or lower `min_time`, then replay",
    ),
    DirtyReason.SQL_FAILED: ReasonPage(
        "transform",
        "an expression of `transform.sql` cannot be computed for the row",
        "`amount / n` where `n` is 0, or `CAST(code AS INT)` of `x7`",
        f"{_FIX} or the SQL (`try_divide`, `try_cast`), then replay",
    ),
    DirtyReason.LATE: ReasonPage(
        "late",
        "the row came after its partition was closed, or is too old, and `event_time.late` is "
        "`dirty`",
        "a row of last week from a phone that was switched off",
        "replay puts it into its own partition",
    ),
}
