"""Delimited lines through the native module, as the exact path reads them."""

import random

import pytest

from sluiceway.formats.csv.decoder import native_lines
from sluiceway.formats.csv.layout import read_layout
from sluiceway.host.native_module import native_module
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from tools.fetched_payloads import joined
from tools.format_fuzz import outcomes
from tools.made_csv import MadeCsv
from tools.payload_damage import damaged


@pytest.mark.parametrize("seed", range(60))
def test_any_layout_is_read_as_the_exact_path_reads_it(seed: int) -> None:
    pick = random.Random(seed)  # noqa: S311
    made = MadeCsv(pick)
    payloads: list[bytes | None] = [
        made.payload(oddness) for oddness in (0, 0.05, 0.3, 1) for _ in range(20)
    ]
    payloads += [damaged(lambda _: made.payload() or b"\0", pick) for _ in range(20)]
    payloads.append(None)
    expected = outcomes(made.decoder("exact").decode(payloads), len(payloads))
    for path in ("library", "native"):
        assert outcomes(made.decoder(path).decode(payloads), len(payloads)) == expected, path
    assert outcomes(made.decoder("native").decode(joined(payloads)), len(payloads)) == expected


@pytest.mark.skipif(native_module() is None, reason="the native module is not installed")
@pytest.mark.parametrize(
    ("payload", "row"),
    [
        (b"7,x,y", (7, "x", "y")),
        (b'7,"x ""y""",\r\n', (7, 'x "y"', None)),
        (b'"7","a,b","\r\n"\n', (7, "a,b", "\r\n")),
        (b"7,x", None),
        (b"7,x,y,z", None),
        (b'7,"x"y,z', None),
        (b'7,"x,y', None),
        (b"7,x\ry,z", None),
        (b"7,\xff,z", None),
        (b"\xef\xbb\xbf7,x,y", None),
        (b"7,\0,z", None),
        (b" 7,x,y", None),
    ],
)
def test_lines_are_vouched_for_or_left(payload: bytes, row: tuple[object, ...] | None) -> None:
    fields = (("a", "int"), ("b", "string"), ("c", "string"))
    schema = Schema(tuple(Field(name, parse_hive_type(of)) for name, of in fields))
    reader = native_lines(schema, read_layout(schema, {}))
    assert reader is not None
    batch, kept, left = reader.read([b"1,,", payload, b"2,,"], ())
    assert (kept.tolist(), left.tolist()) == (([0, 1, 2], []) if row else ([0, 2], [1]))
    if row:
        assert tuple(batch.to_pylist()[1].values()) == row
