"""Hostile text where a job file has names, filters and values: refused, or exactly itself."""

import json
import re
from pathlib import Path

import pytest

from sluiceway.errors import JobFileError
from sluiceway.expressions.tokens import MAX_TEXT_BYTES
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.jobfile.loader import parse_job
from sluiceway.sinks.partition_path import (
    partition_folder,
    partition_value_problem,
    resolve_within,
)
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.row_choices import RowChooser
from sluiceway.worker.row_rules import RowChoices, RowColumn, payload_fields
from tools.hostile_payloads import hostile_payloads

# Each name stands on a line of its own.
JOB = """\
version: 1
name: @
connections:
  main: {kafka: {bootstrap_servers: "b:9092"}}
  hms: {metastore: {uri: "thrift://m:9083"}}
source:
  connection: main
  topics:
    - @
format: {json: {}}
table:
  hive:
    connection: hms
    name: @
  columns:
    - name: @
      type: string
    - {name: ts, type: bigint}
  partition_by:
    - name: @
      event_time: "yyyyMMdd"
event_time: {field: ts, unit: ms}
"""
IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
SAFE = {
    2: "[a-z0-9][a-z0-9_-]*",
    9: r"(?!\.{1,2}$)[A-Za-z0-9._-]+",
    14: rf"{IDENTIFIER}\.{IDENTIFIER}",
    16: IDENTIFIER,
    20: IDENTIFIER,
}
_LINE = re.compile(r"^  job\.yaml:(\d+):\d+: ", re.MULTILINE)


def _refusal(payload: str) -> str:
    text = JOB.replace("@", json.dumps(payload))
    with pytest.raises(JobFileError) as caught:
        parse_job(text.encode(), Path("job.yaml"), {})
    return caught.value.message


def test_hostile_name_is_refused_at_its_place_or_is_a_plain_identifier() -> None:
    for payload in hostile_payloads():
        message = _refusal(payload)
        refused = {int(line) for line in _LINE.findall(message)}
        accepted = SAFE.keys() - refused
        unsafe = [line for line in accepted if not re.fullmatch(SAFE[line], payload, re.ASCII)]
        assert unsafe == [], repr(payload)
        lines = message.split("\n")
        assert all(line.isprintable() for line in lines), repr(message)
        assert max(map(len, lines)) < 500


def test_filter_on_a_hostile_text_matches_the_row_that_holds_it_and_no_other() -> None:
    city = RowColumn(Field("city", parse_hive_type("string")))
    schema = Schema(payload_fields([city]))
    # A text with NUL is a dirty row.
    texts = [payload for payload in hostile_payloads() if "\0" not in payload]
    rows = [json.dumps({"city": payload}).encode() for payload in texts]
    decoded = JsonDecoder(schema).decode(rows)
    assert decoded.dirty == ()
    for number, payload in enumerate(texts):
        literal = "'" + payload.replace("'", "''") + "'"
        if len(literal.encode()) > MAX_TEXT_BYTES - 20:
            continue
        where = f"city = {literal}"
        chosen = RowChooser(schema, RowChoices((city,), where)).apply(decoded.rows)
        assert chosen.matching is not None
        matching = [at for at, match in enumerate(chosen.matching) if match]
        assert matching == [number], repr(payload)


def test_partition_of_a_hostile_value_is_one_folder_below_the_table() -> None:
    fine = [each for each in hostile_payloads() if not partition_value_problem("city", each)]
    folders = [partition_folder(["city"], [each]) for each in fine]
    assert len(set(folders)) == len(fine) >= 500
    for folder in folders:
        assert re.fullmatch("city=[^/\x00-\x1f\x7f]+", folder)
        assert resolve_within("/wh/t", folder) == f"/wh/t/{folder}"
