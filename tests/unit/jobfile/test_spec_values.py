import pickle

import pytest

from sluiceway.jobfile.blocks.table import check_time_pattern, is_nested, struct_field
from sluiceway.jobfile.blocks.values import Secret, is_host_port, is_secret_key, parse_duration_ms
from sluiceway.types.reader_names import partition_name_problem


@pytest.mark.parametrize("name", ["dt", "1dt", "Country", "h_r", "select", "null", "filename"])
def test_partition_name_that_readers_find_is_taken(name: str) -> None:
    assert partition_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [("_dt", "hide"), (".dt", "hide"), ("__", "hide"), ("2026", "letters"), ("", "letters"),
     ("d t", "letters"), ("d-t", "letters"), ("d%t", "letters"), ("d/t", "letters"),
     ("日期", "letters"), ("d.t", "letters"), ("dt\n", "letters"), ("IN", "filters"),
     ("between", "filters")],
)  # fmt: skip
def test_partition_name_that_a_reader_hides_or_cannot_ask_for_is_refused(
    name: str, why: str
) -> None:
    assert why in (partition_name_problem(name) or "")


@pytest.mark.parametrize(
    ("text", "value_ms"),
    [("10s", 10_000), ("500ms", 500), ("5m", 300_000), ("1h", 3_600_000), ("1d", 86_400_000),
     ("0.5s", 500), ("0.001s", 1), ("0s", 0)],
)  # fmt: skip
def test_duration_text_gives_milliseconds(text: str, value_ms: int) -> None:
    assert parse_duration_ms(text) == value_ms


@pytest.mark.parametrize(
    "text",
    ["", "10", "s", "-1s", "1 s", "1e3s", "0.0001s", "10S", "1s ", "\u0661s", 10, None, "9" * 99],
)
def test_text_that_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="a duration such as"):
        parse_duration_ms(text)


@pytest.mark.parametrize("pattern", ["yyyyMMdd", "HH", "yyyy-MM-dd HH", "yyyy.MM_dd", "mm"])
def test_time_pattern_of_known_fields_is_kept(pattern: str) -> None:
    assert check_time_pattern(pattern) == pattern


@pytest.mark.parametrize(
    ("pattern", "todo"),
    [
        ("YYYYMMdd", "write `yyyy` for `YYYY`"),
        ("yyyyMMDD", "write `dd` for `DD`"),
        ("hh", "write `HH` for `hh`"),
        ("yyyyMMddHHmmss", "remove `ss`"),
        ("yyyy/MM", "remove `/`"),
        ("yyyy'T'HH", "remove `'`"),
        ("MMM", "write `MM` for `MMM`"),
        ("--", "give each field at most once, no space at either end"),
        ("", "give each field at most once, no space at either end"),
        ("HH HH", "give each field at most once, no space at either end"),
        ("HH ", "give each field at most once, no space at either end"),
    ],
)
def test_time_pattern_with_unknown_part_is_refused(pattern: str, todo: str) -> None:
    with pytest.raises(ValueError, match="a pattern") as caught:
        check_time_pattern(pattern)
    context = getattr(caught.value, "context", None)
    assert context is not None
    assert context["todo"] == todo


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("h:1", True), ("k1.example:65535", True), ("[::1]:9092", True), ("h", False), ("h:0", False),
     ("h:65536", False), ("h:x", False), (":1", False), ("a b:1", False), ("h:1/x", False)],
)  # fmt: skip
def test_host_port_is_told_from_other_text(text: str, is_one: bool) -> None:  # noqa: FBT001
    assert is_host_port(text) is is_one


def test_secret_shows_itself_to_reveal_only() -> None:
    secret = Secret("hunter2")
    assert "hunter2" not in f"{secret} {secret!r}"
    assert secret.reveal() == "hunter2"
    assert pickle.loads(pickle.dumps(secret)) == secret  # noqa: S301 - own bytes


@pytest.mark.parametrize(
    ("key", "is_one"),
    [("sasl.password", True), ("ssl.key.PASSWORD", True), ("spark.hadoop.fs.s3a.secret.key", True),
     ("fs.azure.account.key.lake.dfs.core.windows.net", True), ("sasl.jaas.config", True),
     ("fs.gs.auth.service.account.private.key", True), ("fs.s3a.encryption.key", True),
     ("ssl.key.location", False), ("fs.gs.auth.service.account.private.key.id", False),
     ("ssl.key.pem", True), ("sasl.username", False), ("ssl.ca.location", False),
     ("sasl.oauthbearer.token.endpoint.url", False),
     ("spark.hadoop.fs.s3a.aws.credentials.provider", False),
     ("spark.hadoop.fs.s3a.assumed.role.credentials.provider.secret", True),
     ("spark.hadoop.hadoop.security.credential.provider.path", True)],
)  # fmt: skip
def test_secret_keys_are_told_from_others(key: str, is_one: bool) -> None:  # noqa: FBT001
    assert is_secret_key(key) is is_one


def test_struct_field_is_found_past_nested_commas() -> None:
    text = "STRUCT<a:map<string,int>, b:decimal(3,1), `c d`:struct<x:int,y:int>>"
    assert struct_field(text, "B") == "decimal(3,1)"
    assert struct_field(text, "c d") == "struct<x:int,y:int>"
    assert struct_field(text, "x") is None
    assert struct_field("bigint", "a") is None
    assert is_nested(" Array < int >")
    assert not is_nested("arrayish")
