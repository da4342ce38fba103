"""The block `rooms`: one job file for all rooms, as one of them sees it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from sluiceway.errors import JobFileError, NotInThisVersionError
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.compile.room_rule import MirrorRule, RoomRule
from sluiceway.jobfile.document import Mapping as MappingNode
from sluiceway.jobfile.document import read_document
from sluiceway.jobfile.loader import LoadedJob, inspect_job
from sluiceway.jobfile.problems import job_file_error
from sluiceway.jobfile.room_overlay import file_digest

JOB = """\
version: 1
name: orders
connections:
  main: {kafka: {bootstrap_servers: "k:9092"}}
  hms: {metastore: {uri: "thrift://m:9083"}}
source: {connection: main, topics: [orders]}
format: {json: {}}
table:
  hive: {connection: hms, name: ods.orders}
  columns: [{name: id, type: bigint}]
  partition_by: []
"""
ROOMS = """\
rooms:
  home: a
  after: 4s
  a: {connections: {main: {kafka: {bootstrap_servers: "ka:9092"}}}}
  b: {connections: {main: {kafka: {bootstrap_servers: "${env:B}"}}}}
"""


def load(text: str, room: str = "", environ: Mapping[str, str] | None = None) -> LoadedJob:
    found = inspect_job(text.encode(), Path("orders.yaml"), environ or {}, room=room)
    if found.job is None or found.problems:
        raise job_file_error("orders.yaml", found.problems)
    return found.job


def digest(text: str) -> str:
    root = read_document(text.encode()).root
    assert isinstance(root, MappingNode)
    return file_digest(root)


def test_a_job_without_the_block_has_no_room() -> None:
    (route,) = load(JOB).spec.routes
    assert (route.room, route.file_digest, compile_route(route).rooms) == ("", "", None)


def test_a_room_sees_its_own_connections_and_reads_its_own_references_only() -> None:
    (home,) = load(JOB + ROOMS).spec.routes
    assert home.kafka.bootstrap_servers == "ka:9092"
    (other,) = load(JOB + ROOMS, "b", {"B": "kb:9092"}).spec.routes
    assert other.kafka.bootstrap_servers == "kb:9092"
    rule = RoomRule("b", "a", ("a", "b"), False, 4.0, 30.0, digest(JOB))  # noqa: FBT003
    assert compile_route(other).rooms == rule
    assert rule.others == ("a",)
    with pytest.raises(JobFileError, match=r"orders.yaml:16:55: .* variable B, got nothing"):
        load(JOB + ROOMS, "b")


def test_a_room_of_a_mirrored_queue_has_its_own_names_of_topics() -> None:
    mirrored = """\
rooms:
  home: a
  queue: mirrored
  mirror: {copies: exactly_once, transactional_ids: [mm2-0]}
  writers: own
  a: {}
  b: {topics: {orders: a.orders}}
"""
    (home,), (other,) = (load(JOB + mirrored, room).spec.routes for room in ("a", "b"))
    config = compile_route(other)
    assert config.source.topics == (("orders", "a.orders"),)
    assert compile_route(home).source.topics == ()
    assert config.topics == ("orders",)
    assert config.keeps_tails
    rule = config.rooms
    assert rule is not None
    assert rule.mirror == MirrorRule(
        linked=False,
        exactly_once=True,
        origin=None,
        own_writers=True,
        transactional_ids=("mm2-0",),
    )
    (linked,) = load(JOB + ROOMS.replace("home: a", "home: a\n  queue: linked")).spec.routes
    rule = compile_route(linked).rooms
    assert rule is not None
    assert rule.mirror == MirrorRule(linked=True, exactly_once=True, origin=None, own_writers=True)
    more = "home: a\n  queue: linked\n  mirrored_first: true\n  after_loss: announce"
    (linked,) = load(JOB + ROOMS.replace("home: a", more)).spec.routes
    assert (found := compile_route(linked).rooms) is not None
    assert found.mirror is not None
    assert (found.mirror.first, found.mirror.first_s, found.mirror.holds) == (True, None, False)
    (linked,) = load(JOB + ROOMS.replace("home: a", more.replace("true", "30s"))).spec.routes
    assert (found := compile_route(linked).rooms) is not None
    assert found.mirror is not None
    assert (found.mirror.first, found.mirror.first_s) == (True, 30.0)


def test_a_mirror_with_a_header_may_repeat_rows_and_keeps_no_tails() -> None:
    mirrored = """\
rooms:
  home: a
  queue: mirrored
  mirror: {origin: sw-origin}
  a: {}
  b: {topics: {orders: a.orders}}
"""
    (home,), (other,) = (load(JOB + mirrored, room).spec.routes for room in ("a", "b"))
    config = compile_route(home)
    assert not config.keeps_tails
    assert config.rooms is not None
    assert config.rooms.mirror is not None
    assert config.rooms.mirror.origin == "sw-origin"
    # Seen from room a, copies of room b's rows name the topic as it is there.
    assert config.rooms.mirror.origin_name("B2", "orders", 3) == "B2/a.orders/3"
    back = compile_route(other).rooms
    assert back is not None
    assert back.mirror is not None
    assert back.mirror.origin_name("A1", "orders", 3) == "A1/orders/3"


def test_the_digest_leaves_out_rooms_and_secrets_alone() -> None:
    login = 'properties: {sasl.password: "${env:P}"}'
    with_secret = JOB.replace('servers: "k:9092"', f'servers: "k:9092", {login}')
    assert digest(JOB) == digest(JOB + ROOMS)
    other = with_secret.replace("env:P", "file:/p")
    assert digest(with_secret) == digest(other)
    assert digest(JOB) != digest(JOB.replace("id", "number"))


@pytest.mark.parametrize(
    ("rooms", "says"),
    [
        ("{home: c, a: {}, b: {}}", "12:15: expected one of the rooms a, b, got `c`"),
        ("{home: a, a: {}}", "12:1: expected two rooms or more, got 1"),
        ("{a: {}, b: {}}", "12:1: expected the key `home`, got none"),
        ("{home: a, a: {}, all: {}}", "not `all`, got `all`; rename the room"),
        ("{home: a, a: {}, B: {}}", "12:25: expected 1 to 32 of a-z"),
        (
            "{home: a, swich: auto, a: {}, b: {}}",
            "12:18: unknown key `swich`; did you mean `switch`",
        ),
        ("{home: a, switch: maybe, a: {}, b: {}}", "expected `ask` or `auto`, got `maybe`"),
        ("{home: a, after: 0s, a: {}, b: {}}", "expected a duration from 1s to 1h"),
        ("{home: a, check_blocks: no, a: {}, b: {}}", "expected `wait`, `warn` or `off`"),
        ("{home: a, a: {conections: {}}, b: {}}", "12:22: unknown key `conections`"),
        (
            "{home: a, queue: mirrored, a: {}, b: {}}",
            "12:18: expected `mirror` with `queue: mirrored`, got none; add `mirror: {copies",
        ),
        (
            "{home: a, mirror: {origin: o}, a: {}, b: {}}",
            "12:18: expected `queue: mirrored` with `mirror`, got no `queue`; add it, or remove",
        ),
        (
            "{home: a, queue: linked, mirror: {origin: o}, a: {}, b: {}}",
            "12:33: expected no `mirror` with `queue: linked`: copies have the offsets of their "
            "rows; remove it, or write `queue: mirrored`",
        ),
        (
            "{home: a, queue: stretched, mirror: {origin: o}, a: {}, b: {}}",
            "12:36: expected no `mirror` with `queue: stretched`: one cluster spans the rooms",
        ),
        (
            "{home: a, queue: mirrored, mirror: {}, a: {}, b: {}}",
            "12:35: expected `origin` or `copies: exactly_once`",
        ),
        (
            "{home: a, queue: mirrored, mirror: {copies: at_least_once}, writers: shared, "
            "a: {}, b: {}}",
            "12:44: expected `origin` or `copies: exactly_once`",
        ),
        (
            "{home: a, a: {topics: {orders: x}}, b: {}}",
            "12:22: expected no `topics` of a room with `queue: stretched`",
        ),
        (
            "{home: a, queue: mirrored, mirror: {origin: 'a b'}, a: {}, b: {}}",
            "12:52: expected 1 to 100 of a-z, A-Z, 0-9",
        ),
        (
            "{home: a, queue: linked, mirrored_first: 5s, a: {}, b: {}}",
            "expected `true`, `false` or a duration from 10s to 1d, got `5s`",
        ),
        (
            "{home: a, queue: linked, mirrored_first: soon, a: {}, b: {}}",
            "expected a duration such as `10s`",
        ),
        (
            "{home: a, mirrored_first: true, a: {}, b: {}}",
            "12:18: expected no `mirrored_first` with `queue: stretched`: one cluster spans",
        ),
        (
            "{home: a, queue: mirrored, mirror: {copies: exactly_once}, mirrored_first: true, "
            "a: {}, b: {}}",
            "12:67: expected `mirror.origin` with `mirrored_first`, got none",
        ),
        (
            "{home: a, queue: linked, after_loss: wait, a: {}, b: {}}",
            "expected `hold` or `announce`, got `wait`",
        ),
        (
            "{home: a, queue: mirrored, mirror: {origin: o}, "
            "a: {topics: {orders: x}}, b: {}, c: {}}",
            "12:60: expected two rooms, where topics have other names, got 3",
        ),
    ],
)
def test_wrong_rooms_are_refused_with_their_place(rooms: str, says: str) -> None:
    with pytest.raises(JobFileError) as refused:
        load(f"{JOB}rooms: {rooms}\n")
    assert says in str(refused.value)


@pytest.mark.parametrize("room", ["a", "b"])
def test_names_of_a_room_that_the_job_does_not_have_are_refused_in_every_room(room: str) -> None:
    found = """\
rooms:
  home: a
  queue: linked
  a: {connections: {kept: {kafka: {bootstrap_servers: "k:1"}}}}
  b:
    connections:
      mian: {kafka: {bootstrap_servers: "kb:1"}}
      kept: {kafka: {bootstrap_servers: "kb:1"}}
    topics: {order: a.orders, orders: a.orders}
"""
    with pytest.raises(JobFileError) as refused:
        load(JOB + found, room)
    lines = str(refused.value).splitlines()[1:]
    assert [line.strip() for line in lines] == [
        "orders.yaml:18:7: expected a connection of the job in room `b` (`hms`, `main`), got "
        "`mian`; did you mean `main`? Else add it to the file's `connections`",
        "orders.yaml:20:14: expected a topic that the job reads in room `b` (`orders`), got "
        "`order`; did you mean `orders`? Else remove it: keys are the job's own names",
    ]


@pytest.mark.parametrize(
    ("job", "known"),
    [
        (JOB.replace("topics: [orders]", "topics: 'ord.*'"), "`ord.*`"),
        (
            JOB.replace(", topics: [orders]", "").replace(", name: ods.orders", "")
            + "routes: [{topics: [orders], table: ods.o}, {topics: '${env:P}', table: ods.p}]\n",
            "`orders`, `pay.*`",
        ),
    ],
)
def test_topics_of_a_room_go_by_lists_and_patterns_of_all_routes(job: str, known: str) -> None:
    rooms = "rooms: {home: a, queue: linked, a: {topics: {orders: x}}, b: {}}\n"
    environ = {"P": "pay.*"}
    assert load(job + rooms, environ=environ).spec.routes
    with pytest.raises(JobFileError, match="got `users`; remove it") as refused:
        load(job + rooms.replace("orders: x", "users: x"), environ=environ)
    assert f"in room `a` ({known})" in str(refused.value)


COPIED = """\
rooms:
  home: a
  storage: copied
  a: {location: /a/orders}
  b: {location: "${env:B}/orders"}
"""


def test_a_room_has_its_own_copy_of_the_table() -> None:
    (home,) = load(JOB + COPIED).spec.routes
    assert compile_route(home).table.location == "/a/orders"
    (other,) = load(JOB + COPIED, "b", {"B": "/b"}).spec.routes
    config = compile_route(other)
    assert config.table.location == "/b/orders"
    assert config.rooms is not None
    assert config.rooms.copied
    assert config.table.copied
    assert digest(JOB + COPIED) == digest(JOB)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("a: {location: /a/orders}", "a: {}", "15:3: expected the key `location` in room `a`"),
        ("storage: copied", "queue: stretched", "15:7: expected no location: one store spans"),
        ("home: a", "home: a\n  switch: auto", "14:11: expected `ask`: of two copies"),
        ("/a/orders}", "a/orders}", "15:17: expected"),
        ("storage: copied", "storage: both", "14:12: expected `stretched` or `copied`, got `both`"),
    ],
)
def test_wrong_copies_are_refused_with_their_place(old: str, new: str, says: str) -> None:
    assert old in COPIED
    with pytest.raises(JobFileError) as refused:
        load(JOB + COPIED.replace(old, new), environ={"B": "/b"})
    assert says in str(refused.value)


def test_a_location_is_of_one_table() -> None:
    name = "routes: [{topics: [orders], table: {hive: {connection: hms, name: ods.orders}}}]"
    with pytest.raises(JobFileError, match="expected no location in a job with routes"):
        load(f"{JOB}{name}\n{COPIED}", environ={"B": "/b"})


@pytest.mark.parametrize(
    "key",
    [
        "witness: {storage: s, path: p}",
    ],
)
def test_what_comes_later_is_refused_by_name(key: str) -> None:
    with pytest.raises(NotInThisVersionError, match="is not in this version"):
        load(f"{JOB}rooms: {{home: a, {key}, a: {{}}, b: {{}}}}\n")
