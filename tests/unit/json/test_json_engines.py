"""Which fast path a decoder takes, and that the native one vouches for what it should."""

import importlib
import sys
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest

from sluiceway.convert.native_blocks import NativeReader
from sluiceway.formats.json.decoder import Engine, JsonDecoder
from sluiceway.host import native_module as host
from sluiceway.host.native_module import INTERFACE, SWITCH, native_module
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import DateType, Field, Schema, StructType
from tools.fetched_payloads import joined

NAME = "sluiceway_stand_in"
INT = parse_hive_type("int")
SCHEMA = Schema((Field("v", INT),))
needs_native = pytest.mark.skipif(
    native_module() is None, reason="the native module is not installed: make native"
)


def stand_in(monkeypatch: pytest.MonkeyPatch, interface: int) -> None:
    """Put a module of another version in place of the native one."""
    module = ModuleType(NAME)
    module.__spec__ = sys.__spec__
    module.INTERFACE = interface  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, NAME, module)
    monkeypatch.setattr(host, "MODULE", NAME)


@pytest.mark.parametrize("interface", [INTERFACE - 1, INTERFACE + 1])
def test_native_module_of_another_interface_is_not_used(
    monkeypatch: pytest.MonkeyPatch, interface: int
) -> None:
    stand_in(monkeypatch, interface)
    assert native_module() is None
    assert JsonDecoder(SCHEMA).decode([b'{"v":1}']).rows.to_pylist() == [{"v": 1}]


def test_native_module_of_this_interface_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, INTERFACE)
    assert native_module() is sys.modules[NAME]


def test_native_module_that_is_switched_off_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, INTERFACE)
    assert native_module({SWITCH: "0"}) is None
    assert native_module({SWITCH: "1"}) is not None


def test_engine_native_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "MODULE", "sluiceway_not_there")
    with pytest.raises(ValueError, match="not installed"):
        JsonDecoder(SCHEMA, engine="native")
    assert len(JsonDecoder(SCHEMA).decode([b'{"v":1}']).rows) == 1


@needs_native
@pytest.mark.parametrize("shape", ["standard", "narrow", "wide"])
def test_native_reader_vouches_for_every_standard_event(
    monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3])
    bench = importlib.import_module("bench.standard_events")
    columns = bench.SHAPES[shape].columns.items()
    reader = NativeReader.for_schema(
        Schema(tuple(Field(n, parse_hive_type(t)) for n, t in columns))
    )
    assert reader is not None
    (found,) = reader.read(list(bench.bench_events(500, shape=shape)))
    assert len(found.suspects) == 0
    assert [len(batch) for batch in found.batches] == [500]


@needs_native
@pytest.mark.parametrize(
    ("hive", "text"),
    [
        *(("bigint", text) for text in ("-9223372036854775808", "12.0", "1.2e1", '"12"', "0e5")),
        *(("decimal(18,2)", text) for text in ("0.10", "1e2", '"+1.5"', "0.100")),
        *(("double", text) for text in ("6.02e23", "0.1", "5e-324", "123e20")),
        *(("float", text) for text in ("3.4e38", "16777215", "1e-45")),
        *(
            ("timestamp", text)
            for text in ('"2026-11-20T08:00:00\\u002b08:00"', '"2026-11-20 08:00Z"')
        ),
        *(("string", text) for text in ('"a\\u4f60\\ud83d\\ude00"', '"\u4f60"', '"\\n"')),
        *(("map<int,string>", text) for text in ('{"7":"x","8":null}', "{}")),
        *(("boolean", text) for text in ("true", "null")),
    ],
)
def test_native_reader_vouches_for_what_is_common(hive: str, text: str) -> None:
    reader = NativeReader.for_schema(Schema((Field("v", parse_hive_type(hive)),)))
    assert reader is not None
    for payload in (f'{{"v":{text}}}', f'{{ "x":[{{}},NaN,-Inf], "\\u0076" :{text} }}\n'):
        (found,) = reader.read([payload.encode()])
        assert len(found.suspects) == 0


@needs_native
@pytest.mark.parametrize("engine", ["native", "exact"])
def test_day_as_a_number_is_no_text_for_any_engine(engine: Engine) -> None:
    policy = Policy(timezone="UTC")
    schema = Schema((Field("v", DateType(), time_unit="s", policy=policy),))
    found = JsonDecoder(schema, engine=engine).decode([b'{"v":"2026-11-20"}', b'{"v":86400}'])
    assert [row.index for row in found.dirty] == [0]
    assert found.rows.to_pylist() == [{"v": date(1970, 1, 2)}]


@needs_native
@pytest.mark.parametrize(
    "kind",
    [
        StructType(()),
        StructType((Field("a", INT), Field("a", INT))),
        parse_hive_type("binary"),
        parse_hive_type("array<binary>"),
        parse_hive_type("map<double,int>"),
        parse_hive_type("map<string,struct<b:binary>>"),
    ],
)
def test_native_reader_leaves_a_table_that_it_cannot_read(kind: StructType) -> None:
    assert NativeReader.for_schema(Schema((Field("v", kind),))) is None


DOUBTED = Schema(
    (
        Field("v", INT),
        Field("o", parse_hive_type("struct<a:array<int>>")),
        Field("deep", INT, path=("p", "deep")),
        Field("s", parse_hive_type("varchar(2)"), required=True),
    )
)
_LONG_ONE = f"1{'0' * 60}e-60"


@needs_native
@pytest.mark.parametrize(
    ("text", "column", "value"),
    [
        ('{"v":"x","s":"a"}', 0, '"x"'),
        ('{ "s" : "a", "o" : {"a":[1,{"b":[2]}]} , "z":1}', 1, '{"a":[1,{"b":[2]}]}'),
        ('{"v":1,"s":null}', 3, "null"),
        ('{"v":{"k":1,"k":2},"s":"a"}', 0, '{"k":1,"k":2}'),
        # A value that the slow path takes.
        (f'{{"v":{_LONG_ONE},"s":"a"}}', 0, _LONG_ONE),
        ('{"v":"x","s":"abc"}', -1, ""),
        ('{"v":"x"}', -1, ""),
        ('{"p":{"deep":"x"},"s":"a"}', -1, ""),
        ('{"v":"x","v":"x","s":"a"}', -1, ""),
        ('{"v":"x","s":"a"', -1, ""),
        ('{"v":"x,"s":"a"}', -1, ""),
        ('{"v":"\\ud800","s":"a"}', -1, ""),
        ('{"v":[01],"s":"a"}', -1, ""),
    ],
)
def test_native_reader_says_which_value_it_doubts(text: str, column: int, value: str) -> None:
    reader = NativeReader.for_schema(DOUBTED)
    assert reader is not None
    payloads = [b'{"v":1,"s":"a"}', text.encode(), b'{"s":"b"}']
    (found,) = reader.read(payloads)
    assert found.doubts is not None
    ((number, begin, end),) = found.doubts.tolist()
    assert found.suspects.tolist() == [1]
    assert (number, text.encode()[begin:end].decode()) == (column, value)
    decoded, exact = (JsonDecoder(DOUBTED, engine=engine) for engine in ("native", "exact"))
    for batch in (payloads, joined(payloads), payloads * 2):
        wanted, came = exact.decode(list(batch)), decoded.decode(batch)
        assert (came.rows, came.dirty) == (wanted.rows, wanted.dirty)


@pytest.mark.parametrize("text", ["1e0x10", "-1E+0X2", "1e-0x1", "1e\\u0030x1", "1e0\\u00781"])
def test_no_engine_reads_an_exponent_of_hexadecimal_digits(text: str) -> None:
    schema = Schema((Field("v", parse_hive_type("decimal(38,2)")), Field("w", INT)))
    payloads = [b'{"w":2,"v":"3"}', b'{"w":1,"v":"%s"}' % text.encode()] * 20
    # A text in the column makes the parser read texts; an x elsewhere is none of its digits.
    payloads += [b'{"v":7,"w":4,"e":"e0x","x":"0x"}']
    for engine in ("library", "auto"):
        found = JsonDecoder(schema, engine=engine).decode(payloads)
        assert {row.path for row in found.dirty} == {"v"}
        assert found.indices.to_pylist() == [*range(0, 40, 2), 40]
