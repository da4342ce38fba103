"""Frames, routes and options: what is sent, what is read, what is refused."""

import base64
import hashlib
import hmac
import json
import struct

import pytest

from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.rocketmq.connection import Tls
from sluiceway.sources.rocketmq.frames import (
    MAX_FRAME_BYTES,
    Credentials,
    Reply,
    WireError,
    read_frame,
    read_reply,
    request_frame,
)
from sluiceway.sources.rocketmq.options import read_options
from sluiceway.sources.rocketmq.routes import queue_of, read_cluster, read_route, read_topics
from tools.rocketmq_fake import reply_frame


def header_of(frame: bytes) -> dict[str, object]:
    length, header_length = struct.unpack_from(">ii", frame)
    assert length == 4 + header_length
    found: dict[str, object] = json.loads(frame[8:])
    return found


def test_request_has_its_fields_as_texts() -> None:
    header = header_of(request_frame(7, 11, {"queueId": 3, "quoted": True}, None))
    assert (header["opaque"], header["code"], header["flag"]) == (7, 11, 0)
    assert header["extFields"] == {"queueId": "3", "quoted": "true"}


def test_request_is_signed_over_its_values_in_order_of_their_names() -> None:
    login = Credentials("key", "secret", "token")
    fields = header_of(request_frame(1, 11, {"b": 2, "a": "x"}, login))["extFields"]
    digest = hmac.new(b"secret", b"keytokenx2", hashlib.sha1).digest()
    assert fields == {
        "a": "x",
        "b": "2",
        "AccessKey": "key",
        "SecurityToken": "token",
        "Signature": base64.b64encode(digest).decode(),
    }
    assert "secret" not in repr(login)


def test_frames_are_cut_off_as_they_come() -> None:
    whole = reply_frame(1, body=b"one") + reply_frame(2, body=b"two")
    buffer, found = bytearray(), []
    for place in range(len(whole)):
        buffer += whole[place : place + 1]
        while (frame := read_frame(buffer)) is not None:
            reply = read_reply(frame)
            assert reply is not None
            found.append((reply.opaque, reply.body))
    assert found == [(1, b"one"), (2, b"two")]
    assert not buffer


def test_request_of_the_server_needs_no_answer() -> None:
    assert read_reply(reply_frame(1, flag=0)[4:]) is None


@pytest.mark.parametrize("length", [-1, 0, 3, MAX_FRAME_BYTES + 1])
def test_length_that_cannot_be_is_refused(length: int) -> None:
    with pytest.raises(WireError, match="announced"):
        read_frame(bytearray(struct.pack(">i", length)))


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">i", 9) + b"{}",
        struct.pack(">I", 1 << 24 | 2) + b"{}",
        struct.pack(">i", 2) + b"[]",
        struct.pack(">i", 2) + b"{}",
        struct.pack(">i", 1) + b"{",
        struct.pack(">i", 37) + b'{"code":true,"opaque":1,"flag":1     }',
        struct.pack(">i", 44) + b'{"code":0,"opaque":1,"flag":1,"extFields":1}',
    ],
)
def test_header_that_is_none_is_refused(frame: bytes) -> None:
    with pytest.raises(WireError):
        read_reply(frame)


@pytest.mark.parametrize("text", ["", "x", "1.5", "٣", "--1", "9" * 20])
def test_field_that_is_no_offset_is_refused(text: str) -> None:
    with pytest.raises(WireError, match="a number was expected"):
        Reply(1, 0, "", {"offset": text}, b"").number("offset")
    assert Reply(1, 0, "", {"offset": "-1"}, b"").number("offset") == -1


ROUTE = b"""{"brokerDatas":[
  {"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"b-10","cluster":"c"},
  {"brokerAddrs":{"0":"10.0.0.3:10911"},"brokerName":"a","cluster":"c"}],
 "queueDatas":[{"brokerName":"b-10","perm":6,"readQueueNums":2,"writeQueueNums":4},
  {"brokerName":"a","perm":2,"readQueueNums":8},{"brokerName":"gone","perm":6,"readQueueNums":1}]}"""


def test_route_with_bare_numbers_as_keys_is_read() -> None:
    route = read_route(ROUTE)
    assert route.queues == {"b-10": 2}, "queues that cannot be read, or whose broker is not told"
    assert route.brokers["b-10"].addresses == {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}
    assert [str(one) for one, _ in route.partitions("t")] == ["t[b-10/0]", "t[b-10/1]"]


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        (b"[]", read_route),
        (b"{}", read_route),
        (b"{0:", read_route),
        (b'{"brokerDatas":[],"queueDatas":[1]}', read_route),
        (b'{"brokerDatas":[],"queueDatas":[{"brokerName":"a","perm":6}]}', read_route),
        (b'{"brokerDatas":[],"queueDatas":[{"perm":6,"readQueueNums":-1}]}', read_route),
        (b'{"brokerDatas":[{"brokerName":"a","cluster":"c"}],"queueDatas":[]}', read_route),
        (b'{"brokerDatas":[{"brokerName":"","cluster":"c"}],"queueDatas":[]}', read_route),
        (b'{"topicList":[1]}', read_topics),
        (b'{"brokerAddrTable":{"a":1}}', read_cluster),
        (b'{"brokerAddrTable":{"a":{"brokerAddrs":{"x":"y"}}}}', read_cluster),
    ],
)
def test_answer_of_a_name_server_that_is_none_is_refused(raw: bytes, read: object) -> None:
    assert callable(read)
    with pytest.raises(WireError):
        read(raw)


def test_topics_of_the_system_are_not_listed() -> None:
    names = ["b", "a", "%RETRY%g", "%DLQ%g", "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"]
    assert read_topics(json.dumps({"topicList": names}).encode()) == ["a", "b"]


@pytest.mark.parametrize("key", [3, "broker", "broker/", "/3", "broker/x"])
def test_key_of_another_source_is_refused(key: int | str) -> None:
    with pytest.raises(ValueError, match="BROKER/QUEUE"):
        queue_of(SourcePartition("t", key))
    assert queue_of(SourcePartition("t", "a/b/3")) == ("a/b", 3)


def test_options_are_read() -> None:
    found = read_options(
        {
            "name_servers": "h1:9876, h2:9876",
            "access_key": "k",
            "secret_key": "s",
            "tls": "true",
            "ca_file": "/ca",
            "verify": "False",
            "tags": "A || B",
            "record_time": "born",
        }
    )
    assert found.name_servers == ("h1:9876", "h2:9876")
    assert found.credentials == Credentials("k", "s")
    assert found.tls == Tls("/ca", "", "", verify=False)
    assert found.tags == {b"A", b"B"}
    assert found.record_time == "born"
    assert read_options({"name_servers": "h:1", "tags": "*"}).tags == frozenset()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"name_servers": "h"}, "host:port"),
        ({"name_servers": ""}, "host:port"),
        ({"name_servers": "h:70000"}, "host:port"),
        ({"access_key": "k"}, "both or none"),
        ({"tags": "A || "}, "tags"),
        ({"record_time": "now"}, "record_time"),
        ({"tls": "yes"}, "tls"),
        ({"ca_file": "/ca"}, "tls: true"),
        ({"group": "g"}, "no option 'group'"),
    ],
)
def test_wrong_option_is_told(changed: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_options({"name_servers": "h:1", **changed})
