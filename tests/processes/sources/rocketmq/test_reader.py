"""The reader and the client against servers that fail, lie and come back."""

import json
import socket
import ssl
import subprocess
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sluiceway.conformance.sources import read_rows, read_to_stop
from sluiceway.errors import (
    JobFileError,
    OffsetsLostError,
    SourceUnavailableError,
    TaskFailedError,
    UnhealthyEnvironmentError,
)
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.rocketmq.client import RocketMqSourceClient
from sluiceway.sources.rocketmq.codes import Ask
from sluiceway.sources.rocketmq.frames import WireError
from sluiceway.sources.rocketmq.messages import read_messages
from sluiceway.sources.rocketmq.options import read_options
from sluiceway.sources.rocketmq.reader import RocketMqSplitReader
from tools.rocketmq_fake import (
    BATCH,
    BUSY,
    COMPRESSED,
    MOVED,
    NOT_FOUND,
    RETRY,
    FakeQueue,
    FakeRocketMq,
    Request,
    inner_batch,
    reply_frame,
    stored_message,
)

PULL = 11
LOG = SourcePartition("t", "broker-a/0")


@pytest.fixture
def fake() -> Iterator[FakeRocketMq]:
    with FakeRocketMq() as server:
        yield server


def reader_of(fake: FakeRocketMq, *splits: Split, **options: str) -> RocketMqSplitReader:
    return RocketMqSplitReader(splits, read_options({"name_servers": fake.address, **options}))


def bodies(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


class Once:
    """Answers the first pulls otherwise, each kind once."""

    def __init__(self, *answers: tuple[int, bytes]) -> None:
        self._left = list(answers)

    def __call__(self, request: Request) -> bytes | None:
        if request.code != PULL or not self._left:
            return None
        code, body = self._left.pop(0)
        return reply_frame(request.opaque, code, body=body)


@pytest.mark.parametrize("batch", [False, True])
def test_pull_that_unpacks_to_very_much_is_read_in_parts(
    fake: FakeRocketMq, *, batch: bool
) -> None:
    large = [bytes([number]) * (2 << 20) for number in range(24)]
    if batch:
        packed = zlib.compress(inner_batch([(body, b"") for body in large]))
        # It stays whole: the broker knows no place inside of it.
        stored = stored_message(packed, flag=BATCH | COMPRESSED)
        fake.queues[0].messages = dict.fromkeys(range(24), stored)
        fake.queues[0].end = 24
    else:
        fake.queues[0].add(*map(zlib.compress, large), flag=COMPRESSED)
    whole = b"".join(dict.fromkeys(fake.queues[0].messages.values()))
    assert len(read_messages(whole)) == (24 if batch else 9)
    reader = reader_of(fake, Split(LOG, 0, stop_offset=24))
    seen: list[bytes | None] = []
    while not reader.finished():
        for found in reader.read(1.0):
            assert found.offsets[0] == len(seen)
            seen += found.values
    assert seen == large
    reader.close(reusable=False)


@pytest.mark.parametrize("code", [BUSY, 215, 14, RETRY, NOT_FOUND])
def test_broker_that_asks_to_come_again_is_asked_again(fake: FakeRocketMq, code: int) -> None:
    fake.queues[0].add(*bodies(9))
    fake.answer = Once((code, b""), (code, b""))
    reader = reader_of(fake, Split(LOG, 0, stop_offset=9))
    assert read_to_stop(reader).offsets() == list(range(9))
    reader.close(reusable=True)


def test_connection_that_is_lost_is_made_anew(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(3))
    reader = reader_of(fake, Split(LOG, 0))
    assert read_rows(reader, 3).values() == bodies(3)
    fake.cut()
    fake.queues[0].add(*bodies(4, 3))
    assert read_rows(reader, 4).values() == bodies(4, 3)
    (end,) = reader.ends()
    reader.close(reusable=True)
    assert (end.end_offset, end.rows, end.gaps) == (7, 7, 0)


def test_log_that_was_lost_and_has_grown_again_is_met_in_the_same_epoch(
    fake: FakeRocketMq,
) -> None:
    fake.queues[0].add(*bodies(4))
    reader = reader_of(fake, Split(LOG, 0))
    assert read_rows(reader, 4).values() == bodies(4)
    # The broker has lost its disk; what came since has its places in a commit log of its own.
    fake.queues[0] = FakeQueue()
    fake.queues[0].add(*bodies(9, 100), stored_ms=1_700_000_009_000)
    fake.cut()
    with pytest.raises(OffsetsLostError, match="offset 3 is not the one that was read"):
        read_rows(reader, 1)
    reader.close(reusable=False)


def test_log_that_was_lost_beside_a_quiet_queue_is_met_in_the_same_epoch(
    fake: FakeRocketMq,
) -> None:
    fake.queues[0].add(*bodies(4))
    before = reader_of(fake, Split(LOG, 0, stop_offset=4))
    read_to_stop(before)
    mark = before.ends()[0].leader_epoch
    before.close(reusable=True)
    # Nothing comes: the row below its start is all that this reader knows of the log.
    reader = reader_of(fake, Split(LOG, 4, leader_epoch=mark))
    assert reader.read(0.5) == []
    # A replica that has not got the last rows is the master now, and producers have gone on.
    fake.queues[0] = FakeQueue()
    fake.queues[0].add(*bodies(2))
    fake.queues[0].add(*bodies(4, 100), stored_ms=1_700_000_009_000)
    fake.cut()
    with pytest.raises(OffsetsLostError, match="offset 3 is not the one that was read"):
        read_rows(reader, 1)
    reader.close(reusable=False)


def test_log_of_a_quiet_queue_is_read_on_behind_a_lost_connection(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(4))
    before = reader_of(fake, Split(LOG, 0, stop_offset=4))
    read_to_stop(before)
    mark = before.ends()[0].leader_epoch
    before.close(reusable=True)
    reader = reader_of(fake, Split(LOG, 4, leader_epoch=mark))
    assert reader.read(0.5) == []
    fake.cut()
    fake.queues[0].add(*bodies(2, 4))
    assert read_rows(reader, 2).values() == bodies(2, 4)
    (end,) = reader.ends()
    reader.close(reusable=True)
    assert (end.end_offset, end.rows, end.gaps) == (6, 2, 0)


def test_log_is_not_doubted_where_retention_took_what_was_read(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(4))
    reader = reader_of(fake, Split(LOG, 0))
    read_rows(reader, 4)
    fake.queues[0].start = 4
    fake.cut()
    fake.queues[0].add(*bodies(2, 4))
    assert read_rows(reader, 2).values() == bodies(2, 4)
    reader.close(reusable=True)


def test_two_brokers_of_one_name_are_told_apart_by_their_rows(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(9, 100), stored_ms=1_700_000_009_000)
    with FakeRocketMq() as names:
        with FakeRocketMq() as first:
            first.queues[0].add(*bodies(4))
            names.answer = lambda asked: tells_of(first, asked)
            reader = reader_of(names, Split(LOG, 0))
            assert read_rows(reader, 4).values() == bodies(4)
        # The name server knows who of them has registered last.
        names.answer = lambda asked: tells_of(fake, asked)
        with pytest.raises(OffsetsLostError, match="offset 3 is not the one that was read"):
            read_rows(reader, 1)
        reader.close(reusable=False)


def test_brokers_are_read_on_while_no_name_server_answers(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(3))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # It takes connections, and says nothing.
        dead = f"127.0.0.1:{silent.getsockname()[1]}"
        with FakeRocketMq() as names:
            names.answer = lambda asked: tells_of(fake, asked)
            options = read_options({"name_servers": f"{names.address},{dead}"})
            reader = RocketMqSplitReader([Split(LOG, 0)], options)
            assert read_rows(reader, 3).values() == bodies(3)
        fake.cut()
        fake.queues[0].add(*bodies(4, 3))
        assert read_rows(reader, 4).values() == bodies(4, 3)
        reader.close(reusable=True)


def tells_of(broker: FakeRocketMq, asked: Request) -> bytes | None:
    """What a name server says of `broker-a`, which is elsewhere."""
    place = {"brokerName": "broker-a", "cluster": "lab", "brokerAddrs": {"0": broker.address}}
    told = json.dumps({"brokerAddrTable": {"broker-a": place}}).encode()
    return reply_frame(asked.opaque, body=told) if asked.code == Ask.CLUSTER else None


def test_broker_that_swallows_connections_takes_little_time_of_healthy_ones(
    fake: FakeRocketMq, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.queues[0].add(*bodies(40))
    healthy, tries = socket.create_connection, []

    def connect(address: tuple[str, int], timeout_s: float) -> socket.socket:
        if address[0] != "swallows":
            return healthy(address, timeout_s)
        tries.append(address)
        time.sleep(0.3)
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", connect)
    places = {
        name: {"brokerName": name, "cluster": "lab", "brokerAddrs": {"0": address}}
        for name, address in (("broker-a", fake.address), ("broker-b", "swallows:1"))
    }
    told = json.dumps({"brokerAddrTable": places}).encode()
    fake.answer = lambda asked: reply_frame(asked.opaque, body=told) if asked.code == 106 else None
    gone = [Split(SourcePartition("t", f"broker-b/{number}"), 0) for number in range(8)]
    reader = reader_of(fake, *gone, Split(LOG, 0))
    assert read_rows(reader, 40).values(8) == bodies(40)
    reader.close(reusable=True)
    assert len(tries) <= 2


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (b"", "closed it"),
        (b"\0\0\0\x50\0\0", "closed it"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "bytes was announced"),
        (reply_frame(1, body=b"{"), "is no JSON"),
        (reply_frame(1, body=b'{"brokerDatas":[{}]}'), "queueDatas|without|no addresses"),
        (reply_frame(1, fields={}, body=b"[]"), "no JSON object"),
    ],
)
def test_name_server_that_lies_is_named_with_what_it_said(told: bytes, says: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def lie() -> None:
            # Until the test shuts it down: how often a client comes back is its own affair.
            with suppress(OSError):
                while True:
                    client, _ = server.accept()
                    with client:
                        client.recv(65_536)
                        client.sendall(told)

        thread = threading.Thread(target=lie, daemon=True)
        thread.start()
        client = RocketMqSourceClient(read_options({"name_servers": address}), 5.0)
        with pytest.raises(SourceUnavailableError, match=says) as failure:
            client.discover(["t"])
        client.close()
        assert address in str(failure.value)
        assert "\n" not in str(failure.value)
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        assert not thread.is_alive()


def test_server_that_is_away_gives_nothing_in_time() -> None:
    with FakeRocketMq() as fake:
        options = read_options({"name_servers": fake.address})
    reader = RocketMqSplitReader([Split(LOG, 0)], options)
    assert reader.read(0.3) == []
    reader.close(reusable=False)


def test_offset_below_the_log_is_lost(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(9))
    fake.queues[0].start = 5
    reader = reader_of(fake, Split(LOG, 2))
    with pytest.raises(OffsetsLostError, match=r"offset 2 is gone: .* from 5 to 9") as failure:
        read_rows(reader, 1)
    reader.close(reusable=False)
    assert failure.value.where == "t[broker-a/0]"


def test_moved_offset_that_the_log_has_is_asked_for_again(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(4))
    fake.answer = Once((MOVED, b""))
    reader = reader_of(fake, Split(LOG, 1, stop_offset=4))
    assert read_to_stop(reader).offsets() == [1, 2, 3]
    reader.close(reusable=True)


def test_replica_that_is_behind_says_nothing_about_the_log(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(4))
    fake.replica_only = True
    fake.answer = Once((MOVED, b""), (RETRY, b""))
    reader = reader_of(fake, Split(LOG, 0, stop_offset=4))
    assert read_to_stop(reader).offsets() == [0, 1, 2, 3]
    reader.close(reusable=True)


@pytest.mark.parametrize("start", [1, 2, 3])
def test_a_start_inside_of_a_batch_that_is_stored_as_one_is_read_from_there(
    fake: FakeRocketMq, start: int
) -> None:
    fake.queues[0].add_batch(*bodies(3))
    fake.queues[0].add(*bodies(2, 3))
    before = reader_of(fake, Split(LOG, 0, stop_offset=start))
    read_to_stop(before)
    (end,) = before.ends()
    before.close(reusable=True)
    split = Split(LOG, start, stop_offset=5, leader_epoch=end.leader_epoch)
    reader = reader_of(fake, split)
    assert read_to_stop(reader).offsets() == list(range(start, 5))
    (end,) = reader.ends()
    reader.close(reusable=True)
    assert (end.rows, end.gaps) == (5 - start, 0)


def test_row_below_the_start_is_compared_with_its_mark(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(4))
    reader = reader_of(fake, Split(LOG, 0, stop_offset=3))
    read_to_stop(reader)
    mark = reader.ends()[0].leader_epoch
    reader.close(reusable=True)
    assert mark is not None
    again = reader_of(fake, Split(LOG, 3, stop_offset=4, leader_epoch=mark))
    assert read_to_stop(again).offsets() == [3]
    again.close(reusable=True)
    other = reader_of(fake, Split(LOG, 3, leader_epoch=mark + 1))
    with pytest.raises(OffsetsLostError, match="offset 2 is not the one that was read") as failure:
        read_rows(other, 1)
    other.close(reusable=False)
    assert failure.value.evidence["leader_epoch"] == str(mark + 1)


def test_replica_with_another_row_below_the_start_gives_nothing_until_its_master_is_back(
    fake: FakeRocketMq,
) -> None:
    fake.queues[0].add(*bodies(4))
    reader = reader_of(fake, Split(LOG, 0, stop_offset=3))
    read_to_stop(reader)
    mark = reader.ends()[0].leader_epoch
    reader.close(reusable=True)
    assert mark is not None
    own_past = FakeQueue()
    own_past.add(*bodies(4), stored_ms=1)
    log, fake.queues[0], fake.replica_only = fake.queues[0], own_past, True
    again = reader_of(fake, Split(LOG, 3, stop_offset=4, leader_epoch=mark))
    assert again.read(1.5) == []
    assert again.ends()[0].end_offset == 3
    fake.queues[0], fake.replica_only = log, False
    assert read_to_stop(again).offsets() == [3]
    again.close(reusable=True)


def test_replica_that_is_shorter_than_what_was_read_gives_nothing(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(2))
    fake.replica_only = True
    reader = reader_of(fake, Split(LOG, 3, leader_epoch=1))
    assert reader.read(0.5) == []
    reader.close(reusable=False)


def test_mark_is_not_compared_when_retention_took_the_row(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(4))
    fake.queues[0].start = 3
    reader = reader_of(fake, Split(LOG, 3, stop_offset=4, leader_epoch=1))
    assert read_to_stop(reader).offsets() == [3]
    reader.close(reusable=True)


def test_mark_is_compared_at_the_end_of_the_log(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(4))
    reader = reader_of(fake, Split(LOG, 4, leader_epoch=1))
    with pytest.raises(OffsetsLostError, match="offset 3 is not the one"):
        read_rows(reader, 1)
    reader.close(reusable=False)


def test_hole_is_believed_when_a_second_connection_meets_it(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(6))
    del fake.queues[0].messages[2], fake.queues[0].messages[3]
    reader = reader_of(fake, Split(LOG, 0, stop_offset=6))
    assert read_to_stop(reader).offsets() == [0, 1, 4, 5]
    (end,) = reader.ends()
    reader.close(reusable=True)
    assert (end.rows, end.gaps) == (4, 2)
    assert fake.connections == 2


def test_hole_of_a_replica_is_none_of_the_log(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(6))
    log, cleaned = fake.queues[0], FakeQueue()
    cleaned.add(*bodies(6))
    del cleaned.messages[2], cleaned.messages[3]
    fake.queues[0], fake.replica_only = cleaned, True
    reader = reader_of(fake, Split(LOG, 0, stop_offset=6))
    assert read_rows(reader, 2).offsets() == [0, 1]
    assert reader.read(2.5) == []
    fake.queues[0], fake.replica_only = log, False
    assert read_to_stop(reader).offsets() == [2, 3, 4, 5]
    (end,) = reader.ends()
    reader.close(reusable=True)
    assert (end.rows, end.gaps) == (6, 0)


def test_replica_without_the_row_below_the_start_gives_nothing_until_its_master_is_back(
    fake: FakeRocketMq,
) -> None:
    fake.queues[0].add(*bodies(4))
    mark = read_messages(fake.queues[0].messages[2])[0].mark
    log, cleaned = fake.queues[0], FakeQueue()
    cleaned.add(*bodies(4))
    del cleaned.messages[2]
    fake.queues[0], fake.replica_only = cleaned, True
    reader = reader_of(fake, Split(LOG, 3, stop_offset=4, leader_epoch=mark))
    assert reader.read(1.5) == []
    fake.queues[0], fake.replica_only = log, False
    assert read_to_stop(reader).offsets() == [3]
    reader.close(reusable=True)


def test_rows_that_one_answer_left_out_are_read(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(6))
    fake.answer = Once((0, fake.queues[0].messages[4]))
    reader = reader_of(fake, Split(LOG, 0, stop_offset=6))
    assert read_to_stop(reader).offsets() == list(range(6))
    reader.close(reusable=True)


def test_messages_without_a_wanted_tag_are_gaps(fake: FakeRocketMq) -> None:
    for tag in (b"A", b"B", b"AB", b"A"):
        fake.queues[0].add(b"x", properties=b"TAGS\x01" + tag + b"\x02")
    fake.queues[0].add(b"none")
    reader = reader_of(fake, Split(LOG, 0, stop_offset=5), tags="A || AB")
    assert read_to_stop(reader).offsets() == [0, 2, 3]
    (end,) = reader.ends()
    reader.close(reusable=True)
    assert (end.end_offset, end.rows, end.gaps) == (5, 3, 2)


def test_born_time_is_the_record_time_where_it_is_asked_for(fake: FakeRocketMq) -> None:
    fake.queues[0].add(b"x", stored_ms=1_000)
    for record_time, wanted in (("stored", 1_000), ("born", 995)):
        reader = reader_of(fake, Split(LOG, 0, stop_offset=1), record_time=record_time)
        (batch,) = read_to_stop(reader).batches
        reader.close(reusable=True)
        assert list(batch.timestamps_ms()) == [wanted]


@pytest.mark.parametrize(
    "wrong",
    [
        stored_message(b"x", topic="other"),
        stored_message(b"x", queue=1),
        stored_message(b"x") + stored_message(b"x"),
    ],
)
def test_message_of_elsewhere_fails_the_task(fake: FakeRocketMq, wrong: bytes) -> None:
    fake.answer = Once((0, wrong))
    reader = reader_of(fake, Split(LOG, 0))
    with pytest.raises(TaskFailedError):
        read_rows(reader, 1)
    reader.close(reusable=False)


def test_altered_message_fails_the_task(fake: FakeRocketMq) -> None:
    fake.answer = Once((0, stored_message(b"x", crc=1)))
    reader = reader_of(fake, Split(LOG, 0))
    with pytest.raises(WireError, match="checksum"):
        read_rows(reader, 1)
    reader.close(reusable=False)


@pytest.mark.parametrize(("code", "kind"), [(16, UnhealthyEnvironmentError), (29, TaskFailedError)])
def test_refusal_is_told(fake: FakeRocketMq, code: int, kind: type[Exception]) -> None:
    fake.answer = Once((code, b""))
    reader = reader_of(fake, Split(LOG, 0))
    with pytest.raises(kind, match="as told"):
        read_rows(reader, 1)
    reader.close(reusable=False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that nobody but itself has signed, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    found = (folder / "cert.pem", folder / "key.pem")
    command = [
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=broker"),
        *("-days", "2", "-out", str(found[0]), "-keyout", str(found[1])),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return found


@pytest.mark.parametrize("trusting", ["ca_file", "verify"])
def test_connections_are_encrypted(certificate: tuple[Path, Path], trusting: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    more = {"ca_file": str(certificate[0])} if trusting == "ca_file" else {"verify": "false"}
    with FakeRocketMq(tls=context) as fake:
        fake.queues[0].add(*[b"x" * 100_000] * 8)
        reader = reader_of(fake, Split(LOG, 0, stop_offset=8), tls="true", **more)
        assert read_to_stop(reader).offsets() == list(range(8))
        reader.close(reusable=True)


def test_server_whose_certificate_nobody_has_signed_is_not_trusted(
    certificate: tuple[Path, Path],
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    with FakeRocketMq(tls=context) as fake:
        options = read_options({"name_servers": fake.address, "tls": "true"})
        client = RocketMqSourceClient(options, 5.0)
        with pytest.raises(UnhealthyEnvironmentError, match="certificate is not trusted"):
            client.discover(["t"])
        client.close()


def test_pem_file_that_is_not_there_is_told(fake: FakeRocketMq) -> None:
    options = read_options({"name_servers": fake.address, "tls": "true", "ca_file": "/no/ca.pem"})
    client = RocketMqSourceClient(options, 5.0)
    with pytest.raises(JobFileError, match="PEM file") as failure:
        client.discover(["t"])
    client.close()
    assert failure.value.where == "/no/ca.pem"


def test_backlog_comes_in_large_reads_however_slow_the_broker_is(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(60))

    def slowly(request: Request) -> None:
        time.sleep(0.02 if request.code == Ask.PULL else 0.0)

    fake.answer = slowly
    reader = reader_of(fake, Split(LOG, 0))
    # Four messages a pull: what is gathered at the end of a log for single rows would be a few.
    assert sum(len(batch.offsets) for batch in reader.read(10.0)) > 30
    reader.close(reusable=True)
