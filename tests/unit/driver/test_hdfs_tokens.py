"""Tokens for a cluster's tasks: whom they are asked of, and that new ones come before the end."""

import io
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluiceway.driver import hdfs_tokens
from sluiceway.driver.hdfs_tokens import HdfsTokens, Place
from sluiceway.driver.spark.token_jvm import _known_as
from sluiceway.errors import KerberosUnavailableError
from sluiceway.host.hdfs_tokens import DelegationTokens, HdfsToken, hold_tokens, packed_tokens
from sluiceway.host.kerberos import KerberosLogin
from sluiceway.observe.log import LogFormat, stderr_log
from sluiceway.storage.access import HDFS, StoreAccess, Stores
from tools.waiting import wait_for

LOGIN = KerberosLogin("etl@EXAMPLE.ORG", "/etc/etl.keytab")


def place(location: str = "hdfs://ns/orders", *, login: KerberosLogin | None = LOGIN) -> Place:
    options = (("config_dir", "/etc/hadoop"), *(() if login is None else login.options()))
    return location, Stores((StoreAccess(HDFS, options),))


@pytest.fixture(autouse=True)
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in one entry that a test sets; what waits for it looks often."""
    now_s = [1_000.0]
    monkeypatch.setattr(hdfs_tokens, "time", SimpleNamespace(time=lambda: now_s[0]))
    monkeypatch.setattr(hdfs_tokens, "_SHORTEST_PAUSE_S", 0.02)
    monkeypatch.setattr(hdfs_tokens, "_LONGEST_PAUSE_S", 0.02)
    return now_s


class NameNodes:
    """Gives tokens; fails as long as it is told to."""

    def __init__(self, now_s: list[float], life_s: float = 100.0) -> None:
        self.asked: list[str] = []
        self.now_s = now_s
        self.life_s = life_s
        self.away = False

    def __call__(self, login: KerberosLogin, folder: str, service: str) -> list[HdfsToken]:
        assert (login, folder) == (LOGIN, "/etc/hadoop")
        self.asked.append(service)
        if self.away:
            raise KerberosUnavailableError("no KDC", hint="is the KDC up?")
        number = str(len(self.asked)).encode()
        ends_s = self.now_s[0] + self.life_s
        return [HdfsToken(service, number, b"secret", ends_s)]


@pytest.fixture
def told() -> io.StringIO:
    return io.StringIO()


def tokens_of(nodes: NameNodes, told: io.StringIO) -> HdfsTokens:
    return HdfsTokens(stderr_log(stream=told, log_format=LogFormat.JSON), nodes)


def events(told: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told.getvalue().splitlines()]


def test_places_without_a_login_or_on_other_stores_need_no_tokens(
    told: io.StringIO, now_s: list[float]
) -> None:
    nodes = NameNodes(now_s)
    tokens = tokens_of(nodes, told)
    assert tokens.delegation_tokens([("/warehouse/orders", Stores()), place(login=None)]) is None
    assert nodes.asked == []


def test_each_name_service_is_asked_once_until_half_of_the_life(
    told: io.StringIO, now_s: list[float]
) -> None:
    nodes = NameNodes(now_s)
    tokens = tokens_of(nodes, told)
    first = tokens.delegation_tokens([place(), place("hdfs://ns/other")])
    assert tokens.delegation_tokens([place()]) == first
    assert nodes.asked == ["hdfs://ns"]
    both = tokens.delegation_tokens([place("hdfs://far:8020/x")])
    assert nodes.asked[1:] == ["hdfs://far:8020"]
    assert both is not None
    assert first is not None
    assert both.owner == first.owner
    tokens.close()


def test_new_tokens_come_before_the_old_ones_end_and_are_told(
    told: io.StringIO, now_s: list[float]
) -> None:
    nodes = NameNodes(now_s)
    tokens = tokens_of(nodes, told)
    first = tokens.delegation_tokens([place()])
    now_s[0] += 49.0
    time.sleep(0.1)
    assert tokens.delegation_tokens([place()]) == first
    now_s[0] += 1.0
    wait_for(lambda: tokens.delegation_tokens([place()]) != first)
    assert nodes.asked == ["hdfs://ns"] * 2
    tokens.close()
    assert {line["event"] for line in events(told)} == {"hdfs_tokens_renewed"}
    assert "secret" not in told.getvalue()


def test_kdc_that_is_away_leaves_the_tokens_that_hold(
    told: io.StringIO, now_s: list[float]
) -> None:
    nodes = NameNodes(now_s)
    tokens = tokens_of(nodes, told)
    first = tokens.delegation_tokens([place()])
    nodes.away = True
    now_s[0] += 60.0
    wait_for(lambda: events(told)[-1]["event"] == "hdfs_tokens_not_renewed")
    assert tokens.delegation_tokens([place()]) == first
    said = events(told)[-1]
    assert (said["reason"], said["left_s"]) == ("no KDC (is the KDC up?)", 40)
    nodes.away = False
    now_s[0] += hdfs_tokens._REST_S
    wait_for(lambda: tokens.delegation_tokens([place()]) != first)
    tokens.close()


def test_name_service_that_is_away_keeps_nobody_else_from_tokens(
    told: io.StringIO, now_s: list[float]
) -> None:
    nodes = NameNodes(now_s)
    tokens = tokens_of(nodes, told)
    nodes.away = True
    first = tokens.delegation_tokens([place("hdfs://dead/x")])
    assert first is not None
    assert first.content == packed_tokens([])
    assert events(told)[-1]["reason"] == "no KDC (is the KDC up?)"
    # It rests: the next epochs do not wait for it.
    assert tokens.delegation_tokens([place("hdfs://dead/x")]) == first
    assert nodes.asked == ["hdfs://dead"]
    nodes.away = False
    both = tokens.delegation_tokens([place("hdfs://dead/x"), place()])
    assert both is not None
    assert b"hdfs://ns" in both.content
    assert b"hdfs://dead" not in both.content
    assert both.fetched_s >= first.fetched_s + 1

    def has_both() -> bool:
        now = tokens.delegation_tokens([place("hdfs://dead/x"), place()])
        return now is not None and b"hdfs://dead" in now.content and b"hdfs://ns" in now.content

    now_s[0] += hdfs_tokens._REST_S
    wait_for(has_both)
    tokens.close()


def test_error_of_a_library_does_not_end_the_renewing(
    told: io.StringIO, now_s: list[float]
) -> None:
    nodes = NameNodes(now_s)
    broken = iter([False, True])

    def fetch(login: KerberosLogin, folder: str, service: str) -> list[HdfsToken]:
        if next(broken, False):
            raise RuntimeError("secret")
        return nodes(login, folder, service)

    tokens = HdfsTokens(stderr_log(stream=told, log_format=LogFormat.JSON), fetch)
    first = tokens.delegation_tokens([place()])
    now_s[0] += 60.0
    wait_for(lambda: events(told)[-1]["event"] == "hdfs_tokens_not_renewed")
    assert events(told)[-1]["reason"] == "RuntimeError"
    tokens.refused()
    wait_for(lambda: tokens.delegation_tokens([place()]) != first)
    tokens.close()


def test_refused_tokens_are_got_anew_at_once(told: io.StringIO, now_s: list[float]) -> None:
    nodes = NameNodes(now_s, life_s=1_000_000)
    tokens = tokens_of(nodes, told)
    first = tokens.delegation_tokens([place()])
    tokens.refused()
    wait_for(lambda: tokens.delegation_tokens([place()]) != first)
    tokens.close()


@pytest.mark.parametrize(
    ("service", "told_as", "known_as"),
    [
        ("hdfs://nn.example.org:8020", "10.0.0.1:8020", "nn.example.org:8020"),
        ("hdfs://ns", "ha-hdfs:ns", "ha-hdfs:ns"),
        ("viewfs://all", "ha-hdfs:ns", "ha-hdfs:ns"),
        ("hdfs://nn", "10.0.0.1:8020", "ha-hdfs:nn"),
    ],
)
def test_token_has_the_name_by_which_the_client_looks(
    service: str, told_as: str, known_as: str
) -> None:
    assert _known_as(service, told_as) == known_as


def test_older_tokens_never_replace_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", "")
    monkeypatch.setattr("sluiceway.host.hdfs_tokens._holding", [])
    newer = DelegationTokens("app", 2_000.0, b"newer")
    file = hold_tokens(newer)
    assert hold_tokens(DelegationTokens("app", 1_000.0, b"older")) == file
    assert file.read_bytes() == b"newer"
    assert file.stat().st_mode & 0o777 == 0o600
    assert "newer" not in repr(newer)


def test_file_is_what_hadoop_writes() -> None:
    token = HdfsToken("ha-hdfs:ns", b"i" * 200, b"p" * 20, 0.0)
    # 200 is 0x8f 0xc8 in Hadoop's form: one more byte follows, and it is the number.
    expected = (
        b"HDTS\x00\x01\x0aha-hdfs:ns\x8f\xc8" + b"i" * 200 + b"\x14" + b"p" * 20
    ) + b"\x15HDFS_DELEGATION_TOKEN\x0aha-hdfs:ns\x00"
    assert packed_tokens([token]) == expected
