"""Damaged frames and messages of RocketMQ: each ends in an answer or in a typed error.

Half of the frames are damaged anywhere. The other half are pulls whose frame and header are sound,
and whose messages are damaged: in their parts, or in a body, a batch or properties that are packed
and given their checksum after that, so that it is not the checksum that refuses them.

Pulls are read by both paths, where the native module is there: what it takes has to be what the
slow path makes of the same bytes, and what that refuses it must not take.

`python -m tools.rocketmq_fuzz --frames 1000000 [--seed 1]` prints one JSON line; exit code 1 and
the frame's seed when anything else comes of one.
"""

import argparse
import collections
import json
import random
import secrets
import struct
import sys
import zlib

from sluiceway.errors import SluicewayError
from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.rocketmq.frames import read_frame, read_reply
from sluiceway.sources.rocketmq.messages import read_messages
from sluiceway.sources.rocketmq.pulled import pulled_rows
from sluiceway.sources.rocketmq.routes import read_cluster, read_route, read_topics
from tools.hang import ended_if_endless
from tools.rocketmq_fake import (
    BATCH,
    BORN_V6,
    COMPRESSED,
    MAGIC_V1,
    MAGIC_V2,
    STORE_V6,
    inner_batch,
    reply_frame,
    stored_message,
)

_EDGES = (0, 1, 2, 0x7F, 0x80, 0xFF)
_ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{0:"h:1"},"brokerName":"b","cluster":"c"}],'
    b'"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4}]}'
)
_QUEUE = SourcePartition("t", "b/0")
_MOST_PROPERTIES = 32_767
_HEAD_OFFSET, _LEAST_BYTES = struct.Struct(">q"), 28
_TOPICS = b'{"topicList":["a","b","%RETRY%x"]}'
_CLUSTER = b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"h:1"},"cluster":"c"}}}'


def sound_frame(rng: random.Random) -> bytes:
    """A frame as a server could send it."""
    kind = rng.randrange(4)
    if kind == 0:
        return reply_frame(rng.randrange(1 << 31), body=rng.choice((_ROUTE, _TOPICS, _CLUSTER)))
    return reply_frame(rng.randrange(1 << 31), fields={"offset": "7"}, body=_messages(rng))


def _messages(rng: random.Random) -> bytes:
    found = []
    first = rng.choice((0, 7, 1 << 40))
    for number in range(first, first + rng.randrange(1, 4)):
        body, flag = rng.randbytes(rng.randrange(60)), rng.choice((0, BORN_V6, STORE_V6))
        if rng.randrange(3) == 0:
            body, flag = inner_batch([(body, b""), (b"x", b"TAGS\x01A\x02")]), flag | BATCH
        if rng.randrange(3) == 0:
            body, flag = zlib.compress(body), flag | COMPRESSED | rng.randrange(8) << 8
        found.append(
            stored_message(
                body,
                offset=number,
                properties=b"KEYS\x01k\x02TAGS\x01A\x02",
                flag=flag,
                magic=rng.choice((MAGIC_V1, MAGIC_V2)),
            )
        )
    return b"".join(found)


def pull_with_damage(rng: random.Random) -> bytes:
    """A sound frame, whose messages are not."""
    found = []
    for number in range(rng.randrange(1, 4)):
        inner = [(rng.randbytes(rng.randrange(60)), _properties(rng)) for _ in range(3)]
        body, flag = inner[0][0], rng.choice((0, BORN_V6, STORE_V6))
        hurt = rng.randrange(5)
        if rng.randrange(3) == 0:
            body, flag = inner_batch(inner), flag | BATCH
        if hurt == 0:
            body = _altered(rng, body)
        if rng.randrange(3) == 0:
            body, flag = _packed(rng, body), flag | COMPRESSED | rng.choice((0, 3, 7)) << 8
        if hurt == 1:
            body = _altered(rng, body)
        properties = _properties(rng)
        if hurt == 2:
            properties = _altered(rng, properties)[:_MOST_PROPERTIES]
        magic = rng.choice((MAGIC_V1, MAGIC_V2))
        message = stored_message(body, offset=number, properties=properties, flag=flag, magic=magic)
        found.append(_altered(rng, message) if hurt == 3 else message)
    fields = {"offset": "7"}
    return reply_frame(rng.randrange(1 << 31), fields=fields, body=b"".join(found))


def _properties(rng: random.Random) -> bytes:
    long = b"v" * rng.choice((0, 1, 32_000)) if rng.randrange(50) == 0 else b"v"
    broken = rng.choice((b"UNIQ_KEY", b"\xff\xfe", b"", b"\x01"))
    return b"KEYS\x01k\x02TAGS\x01A\x02" + broken + b"\x01" + long + b"\x02"


def _packed(rng: random.Random, body: bytes) -> bytes:
    """Now and then more than a pull may unpack to."""
    return zlib.compress(body * (1 << 17) if rng.randrange(2_000) == 0 else body)


def damaged(rng: random.Random, frame: bytes) -> bytes:
    """The frame with bytes changed, cut, doubled or put in; at times with a length that fits."""
    raw = bytearray(_altered(rng, frame))
    if rng.randrange(4) and len(raw) > 4:
        raw[:4] = struct.pack(">i", len(raw) - 4)
    return bytes(raw)


def _altered(rng: random.Random, given: bytes) -> bytes:
    raw = bytearray(given)
    for _ in range(rng.randrange(1, 5)):
        place = rng.randrange(len(raw)) if raw else 0
        kind = rng.randrange(6)
        if kind == 0 and raw:
            raw[place] = rng.randrange(256)
        elif kind == 1 and raw:
            raw[place] = rng.choice(_EDGES)
        elif kind == 2:
            del raw[place : place + rng.randrange(1, 20)]
        elif kind == 3:
            raw[place:place] = rng.randbytes(rng.randrange(1, 20))
        elif kind == 4:
            raw[place : place + 4] = struct.pack(">i", rng.choice((-1, 0, 1, 1 << 20, -(1 << 31))))
        else:
            raw[place:place] = raw[place : place + rng.randrange(1, 40)]
    return bytes(raw)


def judge(frame: bytes) -> str:
    """What becomes of a frame: an answer, nothing yet, or the name of the error's class.

    Raises:
        Exception: Any that is not the product's own: a fault.
    """
    try:
        buffer = bytearray(frame)
        whole = read_frame(buffer)
        reply = None if whole is None else read_reply(whole)
        if reply is None:
            return "incomplete"
        if b"offset" in frame[:400]:
            return judge_pull(reply.body)
        for read in (read_route, read_topics, read_cluster):
            try:
                read(reply.body)
            except SluicewayError:
                continue
            return "answer"
    except SluicewayError as error:
        return type(error).__name__
    return "refused"


def judge_pull(body: bytes) -> str:
    """Read a pull by both paths; which of them took it.

    Raises:
        AssertionError: They differ.
        SluicewayError: It is damaged; the native module did not take it.
    """
    rows = pulled_rows(_QUEUE)
    first = _HEAD_OFFSET.unpack_from(body, 20)[0] if len(body) >= _LEAST_BYTES else 0
    taken = None if rows is None else rows.read(body, first, None)
    assert rows is None or len(rows) == (0 if taken is None else taken[0])
    try:
        messages = read_messages(body)
    except SluicewayError:
        assert taken is None, "the native module took what is damaged"
        raise
    for message in messages:
        message.headers()
        message.property_bytes("TAGS")
        assert 0 <= message.mark < 1 << 53
    if rows is None or taken is None:
        return "messages"
    assert [each.offset for each in messages] == list(range(first, first + taken[0]))
    assert {(each.topic, each.queue) for each in messages} == {(_QUEUE.topic, 0)}
    assert taken[1] == messages[-1].mark
    assert rows.messages() == [each._replace(physical=0) for each in messages]
    return "native"


def run(frames: int, seed: int) -> dict[str, int]:
    """Judge frames made of seeds `seed`, `seed + 1` and so on.

    Returns:
        How often each outcome came; of how many the decoder of messages had all to decide, and how
        many of those were read.
    """
    found: collections.Counter[str] = collections.Counter()
    for number in range(seed, seed + frames):
        rng = random.Random(number)  # noqa: S311 - to be made again
        within = number % 2 == 1
        frame = pull_with_damage(rng) if within else damaged(rng, sound_frame(rng))
        try:
            with ended_if_endless():
                outcome = judge(frame)
        except Exception as error:
            raise AssertionError(f"seed {number}: {error!r}") from error
        found[outcome] += 1
        found["in_messages"] += within
        found["in_messages_read"] += within and outcome in ("messages", "native")
    return dict(found)


def main() -> int:
    """Run and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tools.rocketmq_fuzz")
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 40))
    given = parser.parse_args()
    try:
        found = run(given.frames, given.seed)
    except AssertionError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({"frames": given.frames, "seed": given.seed, "faults": 0, **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
