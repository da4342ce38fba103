"""Both paths of pulls: the native module takes what is plain, and the same as the slow path."""

import random

import pytest

from sluiceway.host.native_module import native_module
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.rocketmq.messages import read_messages
from sluiceway.sources.rocketmq.options import read_options
from sluiceway.sources.rocketmq.pulled import PulledRows, pulled_rows
from sluiceway.sources.rocketmq.reader import QueueBatch, RocketMqSplitReader
from tools.rocketmq_fake import (
    BATCH,
    BORN_V6,
    COMPRESSED,
    MAGIC_V2,
    STORE_V6,
    FakeRocketMq,
    inner_batch,
    stored_message,
)
from tools.rocketmq_fuzz import damaged, judge, run, sound_frame

pytestmark = pytest.mark.skipif(native_module() is None, reason="the native module is not there")
QUEUE = SourcePartition("t", "broker-a/0")


def rows() -> PulledRows:
    found = pulled_rows(QUEUE)
    assert found is not None
    return found


def pull(count: int, first: int = 0, **more: object) -> bytes:
    return b"".join(
        stored_message(
            b"body %d" % n,
            offset=n,
            physical=100 * n,
            properties=b"KEYS\x01k%d\x02TAGS\x01A\x02" % n,
            stored_ms=1_700_000_000_000 + n,
            **more,  # type: ignore[arg-type]
        )
        for n in range(first, first + count)
    )


@pytest.mark.parametrize("record_time", ["stored", "born"])
@pytest.mark.parametrize("more", [{}, {"magic": MAGIC_V2}, {"flag": BORN_V6 | STORE_V6 | 8}])
def test_batch_of_buffers_is_the_batch_of_messages(record_time: str, more: dict[str, int]) -> None:
    first, second = pull(32, 5, **more), pull(9, 37, **more)
    messages = read_messages(first + second)
    taken = rows()
    assert taken.read(first, 5, None) == (32, messages[31].mark)
    assert taken.read(second, 37, None) == (9, messages[-1].mark)
    assert taken.body_bytes == sum(len(each.body) for each in messages)
    found = taken.batch(3, record_time)  # type: ignore[arg-type]
    wanted = QueueBatch(3, QUEUE, messages, record_time)  # type: ignore[arg-type]
    assert len(taken) == 0
    assert (list(found.values), list(found.offsets)) == (wanted.values, wanted.offsets)
    assert list(found.timestamps_ms()) == list(wanted.timestamps_ms())
    assert (found.keys(), found.headers()) == (wanted.keys(), wanted.headers())
    assert found.value_bytes() == wanted.value_bytes()
    for some in ([], [0], [3, 17, 40]):
        assert found.records(some) == wanted.records(some)


def test_rows_at_a_stop_and_behind_it_are_left() -> None:
    taken = rows()
    assert taken.read(pull(10), 0, 4) == (4, read_messages(pull(10))[3].mark)
    assert [each.offset for each in taken.messages()] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "body",
    [
        pull(3, 1),
        pull(2) + pull(1, 3),
        pull(2, queue=1),
        pull(2, topic="u"),
        pull(2, crc=7),
        pull(2)[:-1],
        pull(2) + b"\0\0\0",
        pull(1) + stored_message(b"x" * 40, offset=1, flag=COMPRESSED),
        stored_message(inner_batch([(b"a", b""), (b"b", b"")]), flag=BATCH),
        b"",
        bytes(100),
    ],
)
def test_pull_that_is_not_plain_is_left_whole(body: bytes) -> None:
    taken = rows()
    assert taken.read(pull(4, 20), 20, None) is not None
    assert taken.read(body, 0, None) is None
    assert (len(taken), taken.body_bytes) == (4, sum(len(b"body %d" % n) for n in range(20, 24)))


def test_offset_below_zero_is_left_to_the_path_that_refuses_it() -> None:
    # Found by the fuzz.
    assert judge(damaged_of(553_185_222_476)) == "WireError"


def damaged_of(seed: int) -> bytes:
    rng = random.Random(seed)  # noqa: S311 - the same each time
    return damaged(rng, sound_frame(rng))


def test_damaged_pulls_are_taken_by_neither_path_and_sound_ones_by_both() -> None:
    found = run(6_000, 1)
    assert found["native"] > 30
    assert found["messages"] > 100


def read(fake: FakeRocketMq, until: int) -> tuple[list[bytes | None], int | None]:
    options = read_options({"name_servers": fake.address})
    reader = RocketMqSplitReader([Split(QUEUE, 0, stop_offset=until)], options)
    values: list[bytes | None] = []
    while not reader.finished():
        batches = reader.read(0.5)
        assert len(batches) <= 1
        for batch in batches:
            assert list(batch.offsets) == list(range(len(values), len(values) + len(batch.values)))
            values += list(batch.values)
    (end,) = reader.ends()
    assert (end.rows, end.gaps) == (until, 0)
    reader.close(reusable=False)
    return values, end.leader_epoch


def test_pulls_of_both_kinds_in_any_order_come_as_one_log(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)  # noqa: S311 - a game
    with FakeRocketMq() as fake:
        queue = fake.queues[0]
        wanted: list[bytes] = []
        for _ in range(40):
            bodies = [rng.randbytes(20) for _ in range(rng.randrange(1, 9))]
            (queue.add_batch if rng.randrange(2) else queue.add)(*bodies)
            wanted += bodies
        both = read(fake, len(wanted))
        monkeypatch.setenv("SLUICEWAY_NATIVE", "0")
        slow = read(fake, len(wanted))
    assert both[0] == wanted
    assert both == slow
