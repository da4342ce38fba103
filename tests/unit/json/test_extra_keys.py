"""Keys that no column reads: ignored, dirty, or kept."""

import json

import pytest

from sluiceway.convert.extra_keys import ExtraRule
from sluiceway.formats.contract import Decoded
from sluiceway.formats.json.decoder import Engine, JsonDecoder
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema

COLUMNS = {
    "id": "bigint",
    "geo": "struct<city:string>",
    "items": "array<struct<sku:string>>",
    "shops": "map<string,struct<n:int>>",
    "tags": "map<string,string>",
}
ENGINES: tuple[Engine, ...] = ("library", "exact")


def schema_of(kinds: dict[str, str], **more: Field) -> Schema:
    fields = [Field(name, parse_hive_type(kind)) for name, kind in kinds.items()]
    return Schema((*fields, *more.values()))


def decode(
    payload: bytes, rule: ExtraRule, schema: Schema, engine: Engine, column: str = ""
) -> Decoded:
    """The payload among others that the fast path vouches for."""
    decoder = JsonDecoder(schema, extra=rule, extra_column=column, engine=engine)
    plain = b'{"id":7}'
    decoded = decoder.decode([*[plain] * 40, payload, *[plain] * 40])
    assert decoded.rows.num_rows + len(decoded.dirty) == 81
    assert {row.index for row in decoded.dirty} <= {40}
    return decoded


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (b'{"id":1,"x":2}', "x"),
        (b'{"id":1,"x":null}', "x"),
        (b'{"id":1,"geo":{"city":"a","x":1}}', "geo.x"),
        (b'{"items":[{"sku":"a"},{"sku":"b","y":1}]}', "items[1].y"),
        (b'{"shops":{"a":{"n":1,"z":2}}}', "shops.a.z"),
        (b'{"shops":[["a",{"n":1,"z":2}]]}', "shops[0].z"),
        (b'{"shops":[{"key":"a","value":{"n":1,"z":2}}]}', "shops[0].z"),
        (b'{"ID":1}', "ID"),
    ],
)
def test_key_that_no_column_reads_is_dirty_with_its_path(
    engine: Engine, payload: bytes, path: str
) -> None:
    (dirty,) = decode(payload, "dirty", schema_of(COLUMNS), engine).dirty
    assert (dirty.stage, dirty.reason, dirty.path) == ("convert", "unexpected_field", path)
    assert decode(payload, "ignore", schema_of(COLUMNS), engine).dirty == ()


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_without_such_keys_are_clean(engine: Engine) -> None:
    payload = b'{"id":1,"geo":{"city":"a"},"tags":{"any":"x"},"items":[null,{}],"shops":{"q":null}}'
    assert decode(payload, "dirty", schema_of(COLUMNS), engine).dirty == ()


EXTRA = b'{"x":"a","id":1,"n":12.50,"o":{"k":[1,null]},"z":null,"geo":{"city":"c","alt":true}}'


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_keys_are_kept_in_a_map_as_text(engine: Engine, place: int) -> None:
    fields = list(schema_of({"id": "bigint", "geo": "struct<city:string>"}).fields)
    fields.insert(place, Field("rest", parse_hive_type("map<string,string>")))
    decoded = decode(EXTRA, "keep", Schema(tuple(fields)), engine, "rest")
    rows = decoded.rows.to_pylist()
    assert (rows[39]["id"], rows[39]["rest"]) == (7, None)
    assert rows[40]["id"] == 1
    assert dict(rows[40]["rest"]) == {
        "x": "a",
        "n": "12.50",
        "o": '{"k":[1,null]}',
        "z": None,
        "geo.alt": "true",
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_keys_are_kept_in_a_string_as_json(engine: Engine) -> None:
    schema = schema_of({"id": "bigint", "geo": "struct<city:string>", "rest": "string"})
    text = decode(EXTRA, "keep", schema, engine, "rest").rows.column(2)[40].as_py()
    assert '"n":12.50' in text
    assert json.loads(text) == {
        "x": "a",
        "n": 12.5,
        "o": {"k": [1, None]},
        "z": None,
        "geo.alt": True,
    }


@pytest.mark.parametrize("payload", [b'{"x":1,"x":2}', b'{"x":{"y":1,"y":2}}'])
def test_kept_key_that_came_twice_is_dirty(payload: bytes) -> None:
    schema = schema_of({"geo": "struct<city:string>", "rest": "map<string,string>"})
    found = JsonDecoder(schema, extra="keep", extra_column="rest").decode([payload])
    assert [row.reason for row in found.dirty] == ["duplicate_key"]


@pytest.mark.parametrize(
    ("rule", "column", "kind", "told"),
    [
        ("keep", "", "string", "needs extra_column"),
        ("keep", "other", "string", "needs extra_column"),
        ("dirty", "rest", "string", "goes with unknown_fields: keep"),
        ("keep", "rest", "map<string,int>", "rest is map<string,int>"),
    ],
)
def test_option_that_cannot_be_is_refused(
    rule: ExtraRule, column: str, kind: str, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        JsonDecoder(schema_of({"id": "int", "rest": kind}), extra=rule, extra_column=column)


def test_native_engine_is_refused_where_it_cannot_see() -> None:
    with pytest.raises(ValueError, match="does not see"):
        JsonDecoder(schema_of({"id": "int"}), extra="dirty", engine="native")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "payload", [b'{"shops":[["a",{"n":1}]]}', b'{"tags":[{"key":"a","value":"b"}]}']
)
def test_entries_of_a_map_are_read(engine: Engine, payload: bytes) -> None:
    assert decode(payload, "dirty", schema_of(COLUMNS), engine).dirty == ()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "payload",
    [b'{"geo.alt":5,"geo":{"alt":6,"city":"c"}}', b'{"geo":{"alt":6,"city":"c"},"geo.alt":5}'],
)
def test_key_with_a_dot_is_kept_beside_the_path_of_its_spelling(
    engine: Engine, payload: bytes
) -> None:
    schema = schema_of(
        {"id": "bigint", "geo": "struct<city:string>"},
        rest=Field("rest", parse_hive_type("map<string,string>")),
    )
    decoded = decode(payload, "keep", schema, engine, "rest")
    assert decoded.dirty == ()
    assert dict(decoded.rows.to_pylist()[40]["rest"]) == {"geo.alt": "6", "['geo.alt']": "5"}
    alone = decode(b'{"geo.alt":5}', "keep", schema, engine, "rest")
    assert dict(alone.rows.to_pylist()[40]["rest"]) == {"geo.alt": "5"}


@pytest.mark.parametrize("engine", ENGINES)
def test_path_of_a_dirty_key_with_a_dot_is_one_that_reads_it(engine: Engine) -> None:
    (dirty,) = decode(b'{"host.name":1}', "dirty", schema_of(COLUMNS), engine).dirty
    assert dirty.path == "['host.name']"
