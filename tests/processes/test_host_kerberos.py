"""What is read of ticket caches, and what Kerberos' words ask of a person."""

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sluiceway.host.kerberos import (
    KerberosLogin,
    login_of,
    may_come_back,
    what_to_do,
    without_login,
)
from sluiceway.host.ticket_cache import Ticket, read_ticket

REALM = "EXAMPLE.ORG"


def _data(text: str) -> bytes:
    return struct.pack(">I", len(text)) + text.encode()


def _principal(*parts: str, realm: str = REALM) -> bytes:
    return struct.pack(">II", 1, len(parts)) + _data(realm) + b"".join(map(_data, parts))


def _credential(service: bytes, times: tuple[int, int, int, int]) -> bytes:
    key = struct.pack(">H", 18) + _data("k" * 32)
    flags = struct.pack(">BI", 0, 0)
    addresses = struct.pack(">I", 1) + struct.pack(">H", 2) + _data("abcd")
    nothing = struct.pack(">I", 0)
    return (
        _principal("etl") + service + key + struct.pack(">IIII", *times) + flags
        + addresses + nothing + _data("ticket") + _data("")
    )  # fmt: skip


def _cache(*credentials: bytes) -> bytes:
    header = struct.pack(">HHII", 1, 8, 0, 0)
    start = b"\x05\x04" + struct.pack(">H", len(header)) + header + _principal("etl")
    return start + b"".join(credentials)


OF_THE_REALM = _credential(_principal("krbtgt", REALM), (90, 100, 280, 0))


def test_ticket_of_the_realm_is_found_among_others(tmp_path: Path) -> None:
    configuration = _credential(
        _principal("krb5_ccache_conf_data", "fast_avail", realm="X-CACHECONF:"), (0, 0, 0, 0)
    )
    service = _credential(_principal("hive", "hms"), (1, 2, 3, 4))
    path = tmp_path / "cc"
    path.write_bytes(_cache(configuration, service, OF_THE_REALM))
    found = read_ticket(path)
    assert found == Ticket("etl@EXAMPLE.ORG", 100, 280)
    assert found.life_left(100) == 1
    assert found.life_left(190) == 0.5
    assert found.life_left(281) < 0


@pytest.mark.parametrize("content", [b"", b"text", b"\x05\x03", _cache()])
def test_what_is_no_ticket_cache_has_no_ticket(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cc"
    path.write_bytes(content)
    assert read_ticket(path) is None
    assert read_ticket(tmp_path / "none") is None


def test_cut_ticket_cache_has_no_ticket(tmp_path: Path) -> None:
    path = tmp_path / "cc"
    whole = _cache(OF_THE_REALM)
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert read_ticket(path) is None


@pytest.mark.parametrize(
    ("said", "todo"),
    [
        ("kinit: Clock skew too great while getting initial credentials", "clock"),
        ("kinit: Preauthentication failed while getting initial credentials", "exported again"),
        ("kinit: Keytab contains no suitable keys for a@R while getting", "klist -kt"),
        (
            "kinit: Client 'a@R' not found in Kerberos database while getting initial credentials",
            "`kerberos.principal`",
        ),
        ("Server a/b@R not found in Kerberos database", "service_principal"),
        ("Minor code may provide more information: Ticket expired", "kinit"),
        ("a broken pipe", ""),
    ],
)
def test_words_of_kerberos_have_a_fix(said: str, todo: str) -> None:
    found = what_to_do(said)
    assert todo in found
    assert bool(found) == bool(todo)


def test_only_a_silent_kdc_may_come_back() -> None:
    assert may_come_back("kinit: Cannot contact any KDC for realm 'R' while getting")
    assert not may_come_back("kinit: Preauthentication failed while getting")


def test_login_travels_in_options_and_is_taken_out_again() -> None:
    login = KerberosLogin("etl@R", "/k", "/krb5.conf")
    options = {"config_dir": "/conf", **dict(login.options())}
    assert login_of(options) == login
    assert without_login(options) == {"config_dir": "/conf"}
    assert login_of({"config_dir": "/conf"}) is None
    assert login_of(dict(KerberosLogin("etl@R", "/k").options())) == KerberosLogin("etl@R", "/k")


# A login with a ticket in the cache, whose life is nearly over; says who asked for the next one.
PROGRAM = """
import json, sys, threading
from pathlib import Path
from sluiceway.host import kerberos
asked = threading.Event()
asking = []
def kinit(login, cache):
    asking.append(threading.current_thread().name)
    asked.set()
    Path(cache).write_bytes(Path(sys.argv[2]).read_bytes())
kerberos._kinit = kinit
login = kerberos.KerberosLogin("etl@EXAMPLE.ORG", "/no/keytab")
kerberos._Keeper(login).cache.write_bytes(Path(sys.argv[1]).read_bytes())
kerberos.log_in(login)
print(json.dumps([asked.wait(60), asking[:1]]))
"""


@pytest.mark.parametrize(("left_s", "asks"), [(900, "kerberos"), (-1, "MainThread")])
def test_ticket_that_holds_is_renewed_while_nobody_waits_for_it(
    tmp_path: Path, left_s: int, asks: str
) -> None:
    now_s = int(time.time())
    for name, end_s in (("old", now_s + left_s), ("new", now_s + 100_000)):
        start_s = end_s - 100_000
        held = _credential(_principal("krbtgt", REALM), (start_s, start_s, end_s, 0))
        (tmp_path / name).write_bytes(_cache(held))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "old"), str(tmp_path / "new")],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [True, [asks]]


WITHOUT_TOKENS = """
import os, sys
from pathlib import Path
from sluiceway.host import hdfs_tokens, kerberos
os.environ[hdfs_tokens.TOKEN_VARIABLE] = "/of/the/container"
if sys.argv[2] == "own":
    hdfs_tokens.hold_tokens(hdfs_tokens.DelegationTokens("own", 1.0, b""))
login = kerberos.KerberosLogin("etl@EXAMPLE.ORG", "/no/keytab")
kerberos._Keeper(login).cache.write_bytes(Path(sys.argv[1]).read_bytes())
kerberos.log_in(login)
print(os.path.basename(os.environ.get(hdfs_tokens.TOKEN_VARIABLE, "none")))
"""


@pytest.mark.parametrize(("tokens", "left"), [("yarn", "none"), ("own", "hdfs-tokens-own")])
def test_login_ends_the_tokens_that_yarn_gave_its_container_and_no_others(
    tmp_path: Path, tokens: str, left: str
) -> None:
    now_s = int(time.time())
    held = _credential(_principal("krbtgt", REALM), (now_s, now_s, now_s + 100_000, 0))
    (tmp_path / "ticket").write_bytes(_cache(held))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TOKENS, str(tmp_path / "ticket"), tokens],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [left]
