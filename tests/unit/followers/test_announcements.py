"""Receivers are told of announcements at least once, in order, with the same key each time."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from sluiceway.errors import FencedError, Retriable
from sluiceway.eventtime.watermark import WatermarkRule
from sluiceway.followers import runner
from sluiceway.followers.announcements import Announcement, Announcer, Receiver, announcement_of
from sluiceway.followers.ready_effects import ReadyEffects, WebhookReceiver
from sluiceway.host.http_receiver import HttpReceiver
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import ReadyPartition, ReadyRecord
from sluiceway.ledger.records import NO_ROWS, DataRecord
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.observe.log import stderr_log
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_bodies import ready_body
from tools.followed import Followed
from tools.ledger_records import LEDGER, fence
from tools.waiting import wait_for

_PATIENCE_S = 60.0


class Remembering(Receiver):
    """Fails the first tries, then knows all that it is told."""

    name = "webhook"

    def __init__(self, failures: int = 0) -> None:
        self.tries = 0
        self.told: list[str] = []
        self._failures = failures

    def send(self, announcement: Announcement) -> None:
        self.tries += 1
        if self.tries <= self._failures:
            raise Retriable("is down")
        self.told.append(announcement.key)


class Ledger:
    """A ledger with announced hours."""

    def __init__(self, root: Path) -> None:
        layout = LedgerLayout(str(root), "orders")
        self.log = LedgerLog(LocalStorage(), layout)
        for folder in (layout.log, layout.stage):
            self.log.storage.make_folders(folder)
        self.writer = LedgerWriter(self.log, self.log.fold(), lambda *_: None)
        self.writer.fence(fence(), lambda: None)
        self._epoch = 0

    def announce(self, *hours: int) -> list[int]:
        """Close and announce; returns the slots."""
        slots = []
        for hour in hours:
            prefix = f"dt=20261120/hr={hour:02d}"
            empty = DataRecord(self._epoch, (), (), (), NO_ROWS, "", {}, {}, closed=(prefix,))
            self._epoch += 1
            self.writer.commit(empty)
            self.writer.set_published()
            body = ready_body(self.writer.fold, prefix)
            assert body is not None
            slots.append(self.writer.commit(body).seq)
        return slots

    def teller(self, receiver: Receiver) -> "Telling":
        return Telling(self, receiver)


class Telling:
    """Somebody who is told, once a test says that readers find what it is about."""

    def __init__(self, ledger: Ledger, receiver: Receiver) -> None:
        self._fold = ledger.writer.fold
        self.teller = Announcer(receiver, ledger.log)
        self.teller.find_first(self._fold)
        events = stderr_log(level="error")
        self.followed = Followed(self.teller, ledger.log, self._fold, events)

    def shown(self, through: int) -> None:
        self.followed.through(self._fold, through)

    @property
    def waiting(self) -> int:
        return self.teller.waiting

    @property
    def trouble(self) -> str:
        return self.followed.trouble

    def close(self) -> None:
        self.followed.close()


def key(hour: int) -> str:
    return f"{LEDGER}:dt=20261120/hr={hour:02d}:1"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(runner, "LONGEST_PAUSE_S", 0.05)


def test_receiver_is_told_in_order_once_the_catalog_has_it(tmp_path: Path) -> None:
    ledger, receiver = Ledger(tmp_path), Remembering(failures=3)
    teller = ledger.teller(receiver)
    _, second = ledger.announce(8, 9)
    teller.shown(second)
    wait_for(lambda: receiver.told == [key(8)])
    wait_for(lambda: teller.waiting == 1)
    teller.shown(second + 1)
    wait_for(lambda: teller.waiting == 0)
    teller.close()
    assert receiver.told == [key(8), key(9)]
    assert receiver.tries == 5
    assert teller.trouble == ""


def test_restart_goes_on_behind_what_was_told_and_not_at_slot_0(tmp_path: Path) -> None:
    ledger, before = Ledger(tmp_path), Remembering()
    teller = ledger.teller(before)
    slots = ledger.announce(8, 9, 10)
    teller.shown(slots[1] + 1)
    wait_for(lambda: teller.waiting == 1)
    teller.close()

    after = Remembering()
    again = ledger.teller(after)
    again.shown(slots[2] + 1)
    wait_for(lambda: again.waiting == 0)
    again.close()
    assert (before.told, after.told) == ([key(8), key(9)], [key(10)])


def test_receiver_that_is_new_is_not_told_of_what_was_long_ago(tmp_path: Path) -> None:
    ledger, receiver = Ledger(tmp_path), Remembering()
    old = ledger.announce(8)
    ledger.writer.set_effects(old[0] + 1)
    ledger.announce(9)
    teller = ledger.teller(receiver)
    teller.shown(ledger.writer.fold.next_seq)
    wait_for(lambda: receiver.told != [])
    teller.close()
    assert receiver.told == [key(9)]


def test_receiver_holds_no_connection_while_nothing_waits(tmp_path: Path) -> None:
    ledger, receiver = Ledger(tmp_path), Remembering()
    closed_after: list[list[str]] = []
    receiver.close = lambda: closed_after.append(list(receiver.told))  # type: ignore[method-assign]
    teller = ledger.teller(receiver)
    slots = ledger.announce(8, 9)
    teller.shown(slots[-1] + 1)
    try:
        wait_for(lambda: closed_after != [])
    finally:
        teller.close()
    assert closed_after[0] == [key(8), key(9)]


def test_receiver_that_is_down_is_named_with_what_waits(tmp_path: Path) -> None:
    ledger, receiver = Ledger(tmp_path), Remembering(failures=1_000_000)
    teller = ledger.teller(receiver)
    slots = ledger.announce(8)
    teller.shown(slots[0] + 1)
    wait_for(lambda: receiver.tries > 2)
    assert "1 announcements wait" in teller.trouble
    assert "is down" in teller.trouble
    teller.close()


def test_announcement_of_many_long_names_is_one_that_a_topic_takes() -> None:
    names = [f"dt=20261120/hr=08/app={number:04d}{'%E2%82%AC' * 70}" for number in range(1200)]
    below = tuple(ReadyPartition(name, 0, BigInt(1), BigInt(1)) for name in names)
    body = ReadyRecord(
        "dt=20261120/hr=08", 1, 5, BigInt(1200), BigInt(1200), whole=True, partitions=below
    )
    told = announcement_of(fence(), body, 6).body
    assert len(told) < 300_000
    read = json.loads(told)
    assert read["partitions"] == names[: len(read["partitions"])]
    assert len(read["partitions"]) > 100
    assert len(read["partitions"]) + read["more_partitions"] == 1200


class _Hook(BaseHTTPRequestHandler):
    answers: ClassVar[list[int]] = []
    seen: ClassVar[list[tuple[str, str, dict[str, object]]]] = []
    redirected: ClassVar[int] = 0

    def do_POST(self) -> None:
        if self.path == "/elsewhere":
            type(self).redirected += 1
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        token = self.headers["Authorization"]
        self.seen.append((self.headers["Idempotency-Key"], token, body))
        self.send_response(self.answers.pop(0))
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        type(self).redirected += 1

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def hook() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hook)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    _Hook.answers, _Hook.seen, _Hook.redirected = [], [], 0
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join(_PATIENCE_S)


def test_webhook_gets_the_same_key_until_it_says_2xx_and_no_redirect_is_followed(
    hook: int,
) -> None:
    rule = HttpReceiver(
        f"http://127.0.0.1:{hook}/ready?token=s3cret", "127.0.0.1", (("Authorization", "b64"),)
    )
    receiver = WebhookReceiver(rule)
    _Hook.answers = [500, 302, 204]
    for status in ("500", "302"):
        with pytest.raises(Retriable, match=status) as caught:
            receiver.send(Announcement("k", b'{"a": 1}'))
        assert "s3cret" not in str(caught.value)
        assert "b64" not in str(caught.value)
    receiver.send(Announcement("k", b'{"a": 1}'))
    assert _Hook.seen == [("k", "b64", {"a": 1})] * 3
    assert _Hook.redirected == 0


def test_webhook_gets_the_body_that_the_job_file_has_and_may_know_it_already(hook: int) -> None:
    body = (
        '{"dag_run_id": "{run_id}", "logical_date": null, "conf": {"hour": "{table} {prefix}", '
        '"rows": "{rows}", "parts": "{partitions}", "{job}": [1, "n={rows} {other}"]}}'
    )
    rule = HttpReceiver(
        f"http://127.0.0.1:{hook}/", "127.0.0.1", (("Authorization", "t"),), accept=(409,)
    )
    told = {
        "idempotency_key": "0a-b:dt=20261120/hr=08:1",
        "table": "ods.o",
        "prefix": "dt=20261120/hr=08",
        "rows": 7,
        "partitions": ["dt=20261120/hr=08"],
        "job": "orders",
    }
    _Hook.answers = [409, 404]
    receiver = WebhookReceiver(rule, body)
    receiver.send(Announcement("k", json.dumps(told).encode()))
    with pytest.raises(Retriable, match="404"):
        receiver.send(Announcement("k", json.dumps(told).encode()))
    conf = {
        "hour": "ods.o dt=20261120/hr=08",
        "rows": 7,
        "parts": ["dt=20261120/hr=08"],
        "orders": [1, "n=7 null"],
    }
    run = "0a-b:dt-20261120-hr-08:1"
    sent = {"dag_run_id": run, "logical_date": None, "conf": conf}
    assert _Hook.seen == [("k", "t", sent)] * 2


def test_webhook_is_told_directly_whatever_proxy_the_environment_names(
    hook: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    _Hook.answers = [204]
    headers = (("Authorization", "b64"),)
    rule = HttpReceiver(f"http://127.0.0.1:{hook}/ready", "127.0.0.1", headers)
    WebhookReceiver(rule).send(Announcement("k", b'{"a": 1}'))
    assert _Hook.seen == [("k", "b64", {"a": 1})]


def test_webhook_that_is_not_there_is_told_without_its_url() -> None:
    receiver = WebhookReceiver(HttpReceiver("http://127.0.0.1:1/s3cret", "127.0.0.1"))
    with pytest.raises(Retriable, match="does not answer") as caught:
        receiver.send(Announcement("k", b"{}"))
    assert "s3cret" not in str(caught.value)


def test_webhook_that_answers_byte_by_byte_is_cut_off_when_its_time_is_over() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def drip() -> None:
        with suppress(OSError):
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                while not over.wait(0.1):
                    connection.sendall(b"x")

    dripping = threading.Thread(target=drip, daemon=True)
    dripping.start()
    port = server.getsockname()[1]
    rule = HttpReceiver(f"http://127.0.0.1:{port}/", "127.0.0.1", timeout_s=0.5)
    raised: list[Retriable] = []

    def send() -> None:
        try:
            WebhookReceiver(rule).send(Announcement("k", b"{}"))
        except Retriable as error:
            raised.append(error)

    # Without an end it would wait for some 65,536 bytes.
    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    sending.join(_PATIENCE_S)
    still = sending.is_alive()
    over.set()
    server.close()
    dripping.join(_PATIENCE_S)
    assert not still
    assert "does not answer" in str(raised[0])


def test_first_announcement_that_somebody_was_not_told_of_keeps_what_it_is_about(
    tmp_path: Path,
) -> None:
    """The next driver finds whom to tell of what by the prefixes that are not sealed."""
    ledger, quick, slow = Ledger(tmp_path), Remembering(), Remembering(failures=10**6)
    slow.name = "kafka"
    tellers = [ledger.teller(quick), ledger.teller(slow)]
    effects = ReadyEffects(
        ReadyRule(WatermarkRule(), (), "UTC", whole_key=True),
        ledger.log.storage,
        cast("Any", None),
        [each.teller for each in tellers],
    )
    assert effects.unannounced_from is None
    slots = ledger.announce(8, 9)
    for each in tellers:
        each.shown(slots[1] + 1)
    wait_for(lambda: tellers[0].waiting == 0)
    assert effects.unannounced_from == slots[0]
    for each in tellers:
        each.close()


def test_fenced_driver_tells_nobody_and_writes_no_place(tmp_path: Path) -> None:
    def fenced() -> None:
        raise FencedError("term 1 was taken over")

    ledger, receiver = Ledger(tmp_path), Remembering()
    told = ledger.log.layout.announced("webhook")
    teller = ledger.teller(receiver)
    before = ledger.log.storage.read(told)
    (slot,) = ledger.announce(8)
    ledger.log.check_held = fenced
    teller.shown(slot + 1)
    wait_for(lambda: "was taken over" in teller.trouble)
    teller.close()
    assert receiver.told == []
    assert ledger.log.storage.read(told) == before
    (tmp_path / told).unlink()
    with pytest.raises(FencedError):
        Announcer(receiver, ledger.log).find_first(ledger.writer.fold)
    assert ledger.log.storage.read(told) is None


def test_driver_that_dies_before_it_told_anybody_leaves_all_that_it_announced_to_the_next(
    tmp_path: Path,
) -> None:
    ledger, receiver = Ledger(tmp_path), Remembering()
    # It starts, and comes to no more than records and the catalog.
    Announcer(Remembering(), ledger.log).find_first(ledger.writer.fold)
    (first,) = ledger.announce(8)
    ledger.writer.set_effects(first + 1)
    ledger.announce(9)
    assert ledger.writer.fold.effects_through > first
    teller = ledger.teller(receiver)
    teller.shown(ledger.writer.fold.next_seq)
    wait_for(lambda: teller.waiting == 0)
    teller.close()
    assert receiver.told == [key(8), key(9)]
