"""`init` refuses values that fit in no job file as what was typed, before a server is asked."""

from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.cli.views.init_checks import check_text
from sluiceway.errors import WrongUsageError

USUAL = {"--bootstrap-servers": "127.0.0.1:1", "--metastore": "thrift://127.0.0.1:1"}
LAKE = {"--metastore": None, "--iceberg": "sqlite:////d/c.db", "--warehouse": "file:///d"}


@pytest.mark.parametrize(
    ("topic", "options", "named"),
    [
        ("trips", {"--table": "trips"}, "--table: expected `database.table`"),
        ("trips", {"--table": "a.{b"}, "--table: "),
        ("trips", {"--bootstrap-servers": "kafka"}, "--bootstrap-servers: expected `host:port`"),
        ("trips", {"--metastore": "hms:9083"}, "--metastore: expected `thrift://host:port`"),
        ("trips", {"--registry": "here"}, "--registry: "),
        ("shop_(.*)", {"--table": "ods.{1}"}, "TOPIC: `init` looks at one topic, and `shop_(.*)`"),
        ("shop_*", {}, "TOPIC: `init` looks at one topic, and `shop_*` is a pattern"),
        ("trips", {"--table": "ods.{topic}"}, "--table: `init` looks at one table, and `ods.{topi"),
        ("a/b", {"--table": "ods.trips"}, "TOPIC: "),
        ("trips", {**LAKE, "--warehouse": "here"}, "--iceberg and --warehouse: "),
        ("trips", {**LAKE, "--table": "trips"}, "--table: expected `namespace.table`"),
    ],
)
def test_typed_value_is_refused_by_its_option(
    topic: str,
    options: dict[str, str | None],
    named: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    given = {**USUAL, "--out": str(tmp_path / "t.yaml"), **options}
    typed = [word for name, value in given.items() if value for word in (name, value)]
    assert run_command(["init", topic, *typed, "--yes"]) == 2
    told = capsys.readouterr().err
    assert f"error[SW480]: {named}" in told
    assert "t.yaml" not in told


def test_typed_key_is_refused_by_its_option() -> None:
    with pytest.raises(WrongUsageError, match=r"^--key: "):
        check_text("version: 1\ntable:\n  key: [1] # Typed.\n", Path("job.yaml"))
