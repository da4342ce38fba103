"""One bad value costs its own row: the rest of its block is read fast, soon without a retry."""

import pyarrow as pa
import pytest

from sluiceway.convert import parse_forms
from sluiceway.convert.arrow_blocks import BLOCK_ROWS, SLOW_BLOCKS, BlockReader
from sluiceway.convert.failure_signs import SIGN_BLOCKS, WrongKindPrefix, WrongKindPrefixes, rare
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema

SCHEMA = Schema(
    (
        Field("id", parse_hive_type("bigint")),
        Field("n", parse_hive_type("int")),
        Field("m", parse_hive_type("decimal(18,2)")),
        Field("s", parse_hive_type("string")),
        Field("b", parse_hive_type("boolean")),
        Field("d", parse_hive_type("double")),
        Field("o", parse_hive_type("struct<w:int,t:string>")),
        Field("l", parse_hive_type("array<int>")),
    )
)
CLEAN = b'{"id":%d,"n":7,"m":1.25,"s":"a","b":true,"d":0.5,"o":{"w":3,"t":"x"},"l":[1,2]}'
BLOCKS = 3
ROWS = BLOCK_ROWS * BLOCKS
# Of the value that is replaced, what comes in its place.
BAD = {
    "text in an int": (b'"n":7', b'"n":"x"'),
    "blank text in an int": (b'"n":7', b'"n":""'),
    "int too large": (b'"n":7', b'"n":3000000000'),
    "int with a fraction": (b'"n":7', b'"n":12.5'),
    "boolean in an int": (b'"n":7', b'"n":true'),
    "array in an int": (b'"n":7', b'"n":[7]'),
    "too many places": (b'"m":1.25', b'"m":0.125'),
    "text in a decimal": (b'"m":1.25', b'"m":"n/a"'),
    "empty text in a decimal": (b'"m":1.25', b'"m":""'),
    "day in a decimal": (b'"m":1.25', b'"m":"2026-11-20"'),
    "number in a string": (b'"s":"a"', b'"s": 12'),
    "object in a string": (b'"s":"a"', b'"s":{"a":1}'),
    "text in a boolean": (b'"b":true', b'"b":"yes"'),
    "text in a double": (b'"d":0.5', b'"d" : "x"'),
    "text in a struct": (b'"w":3', b'"w":"x"'),
    "int too large in a struct": (b'"w":3', b'"w":3000000000'),
}


class _Counted(BlockReader):
    """Counts calls of the parser."""

    calls = 0

    def parse(self, data: pa.Buffer) -> pa.Table:
        self.calls += 1
        return super().parse(data)


def _reader() -> _Counted:
    forms = parse_forms.ParseForms.for_schema(SCHEMA)
    assert forms is not None
    return _Counted(SCHEMA, forms)


def _payloads(bad: tuple[bytes, bytes], one_in: int) -> tuple[list[bytes], list[int]]:
    payloads = [CLEAN % number for number in range(ROWS)]
    rows = list(range(one_in // 2, ROWS, one_in))
    for row in rows:
        payloads[row] = payloads[row].replace(*bad)
    return payloads, rows


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("one_in", [100, 1000])
def test_clean_rows_beside_bad_ones_are_vouched_for(bad: tuple[bytes, bytes], one_in: int) -> None:
    payloads, dirty = _payloads(bad, one_in)
    found = list(_reader().read(payloads))
    suspects = [row for block in found for row in block.suspects.tolist()]
    assert suspects == dirty


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_bad_values_of_a_known_kind_cost_no_further_call(bad: tuple[bytes, bytes]) -> None:
    payloads, _ = _payloads(bad, 100)
    reader = _reader()
    blocks = reader.read(payloads)
    next(blocks)
    learning = reader.calls
    assert len(list(blocks)) == BLOCKS - 1
    assert learning > 1
    assert reader.calls - learning == BLOCKS - 1


def test_numbers_in_quotes_are_vouched_for_in_the_wide_form() -> None:
    payloads, _ = _payloads((b'"n":7', b'"n":"7"'), 10)
    reader = _reader()
    found = list(reader.read(payloads))
    # A few at first, before it is known that there are many.
    assert sum(len(block.suspects) for block in found) < 10
    assert sum(len(block.suspects) for block in found[1:]) == 0


def test_wide_form_is_forgotten_after_some_blocks() -> None:
    forms = parse_forms.ParseForms.for_schema(SCHEMA)
    assert forms is not None
    narrow = forms.options.explicit_schema
    assert forms.widen({1})
    assert not forms.widen({1})
    # A column without numbers has no other form.
    assert not forms.widen({3})
    wide = forms.options.explicit_schema
    assert wide.field("n").type != narrow.field("n").type
    assert wide.field("m").type == narrow.field("m").type
    for _ in range(parse_forms.WIDE_BLOCKS - 1):
        forms.end_block()
        assert forms.options.explicit_schema == wide
    forms.end_block()
    assert forms.options.explicit_schema == narrow


def test_block_of_bad_rows_sends_the_next_ones_to_the_slow_path() -> None:
    reader = _reader()
    list(reader.read([b"no JSON"] * BLOCK_ROWS))
    before = reader.calls
    clean = [CLEAN % number for number in range(BLOCK_ROWS)]
    for _ in range(SLOW_BLOCKS):
        (found,) = reader.read(clean)
        assert len(found.suspects) == BLOCK_ROWS
    assert reader.calls == before
    (found,) = reader.read(clean)
    assert len(found.suspects) == 0


def test_sign_that_is_common_in_a_block_is_none() -> None:
    # The same key stands in an object that no column reads: it says nothing.
    other = b'{"before":{"n":"x"},' + CLEAN[1:]
    payloads = [other % number for number in range(BLOCK_ROWS)]
    payloads[5] = payloads[5].replace(b'"n":7', b'"n":"x"')
    (found,) = _reader().read(payloads)
    assert found.suspects.tolist() == [5]


def test_signs_are_looked_for_and_forgotten_after_some_blocks() -> None:
    signs = WrongKindPrefixes()
    sign = WrongKindPrefix(b'"n":"', b"x")
    signs.learn(sign)
    data = b'{"n":"x"}\n{"n":"1"}\n' + b'{"n":1}\n' * 6
    for _ in range(SIGN_BLOCKS):
        assert signs.find(data, 8).tolist() == [1]
    assert signs.find(data, 8).tolist() == []


def test_sign_at_the_very_end_of_the_data_is_no_value() -> None:
    found = rare(WrongKindPrefix(b'"n":', b"1"), b'{"n":', 1)
    assert found is not None
    assert found.tolist() == []
