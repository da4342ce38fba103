"""The matrix as data: where each failpoint is met, and which cells make no sense and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from sluiceway.observe.failpoints import Action, Role


class Fault(StrEnum):
    """What happens at a failpoint."""

    KILL_DRIVER = "kill-driver"
    KILL_WORKER = "kill-worker"
    ZOMBIE = "zombie"
    RAISE = "raise"
    ENOSPC = "enospc"
    LOSE_REQUEST = "lose-request"
    LOSE_REPLY = "lose-reply"


class State(StrEnum):
    """What a restarted driver finds of its local state."""

    KEPT = "kept"
    REMOVED = "removed"


class Scene(StrEnum):
    """What a cell's job is, where the plain one never meets the point."""

    PLAIN = "plain"
    PATTERN = "pattern"
    GROUP = "group"
    TRUSTED = "trusted-partition"
    LANE = "lane"
    HOURS = "hours"
    KEYED = "keyed"
    QUEUES = "queues"
    QUEUES_BY_TIME = "queues-by-time"


QUEUES: Final = (Scene.QUEUES, Scene.QUEUES_BY_TIME)
"""Scenes of jobs on RocketMQ."""

ACTIONS: Final[Mapping[Fault, Action]] = {
    Fault.KILL_DRIVER: Action.KILL,
    Fault.KILL_WORKER: Action.KILL_WORKER,
    Fault.ZOMBIE: Action.STOP,
    Fault.RAISE: Action.RAISE,
    Fault.ENOSPC: Action.ENOSPC,
    Fault.LOSE_REQUEST: Action.LOSE_REQUEST,
    Fault.LOSE_REPLY: Action.LOSE_REPLY,
}


@dataclass(frozen=True, slots=True)
class Visit:
    """A moment at which a run meets a failpoint for certain.

    Attributes:
        place: Pattern of what the point is then about.
        hits: Which visits of that place; a cell takes one.
        early: Before the first task was launched.
    """

    by: Role
    place: str = "*"
    hits: tuple[int, ...] = (1,)
    early: bool = False
    scene: Scene = Scene.PLAIN


def _driver(place: str = "*", *hits: int, early: bool = False) -> Visit:
    return Visit(Role.DRIVER, place, hits or (1,), early)


def _worker(place: str = "*", *hits: int) -> Visit:
    return Visit(Role.WORKER, place, hits or (1,))


def _lane(place: str = "*", *hits: int) -> Visit:
    return Visit(Role.DRIVER, place, hits or (1,), early=True, scene=Scene.LANE)


def _hours(place: str = "*", *hits: int) -> Visit:
    return Visit(Role.DRIVER, place, hits or (1,), early=True, scene=Scene.HOURS)


def _keyed(place: str = "*", *hits: int, early: bool = False) -> Visit:
    return Visit(Role.DRIVER, place, hits or (1,), early, Scene.KEYED)


def _queues(*hits: int, place: str = "*", early: bool = False) -> Visit:
    return Visit(Role.DRIVER, place, hits or (1,), early, Scene.QUEUES)


def _puller(*hits: int, place: str = "*") -> Visit:
    return Visit(Role.WORKER, place, hits or (1,), scene=Scene.QUEUES)


def _rewriter(place: str = "*", *hits: int) -> Visit:
    return Visit(Role.WORKER, place, hits or (1,), scene=Scene.HOURS)


_OWNER = _driver("*/OWNER", early=True)
_FENCE = _driver("*/00000000000000000000.json", early=True)
_SOURCES = _driver("*/00000000000000000001.json", early=True)
_DATA = _driver("*/00000000000000000002.json")
_RESULT = _worker("*/stage/results/*.json")
_PARQUET = _worker("*.parquet*", 1, 2)
_START = _driver(early=True)

VISITS: Final[tuple[tuple[str, tuple[Visit, ...]], ...]] = (
    ("storage.put.*", (_OWNER, _FENCE, _SOURCES, _DATA, _DATA, _RESULT, _RESULT)),
    ("storage.publish.*", (_driver("*.parquet", 1, 2, 3),)),
    ("storage.overwrite.*", (_driver("*/lease.json", early=True), _driver("*/status.json"))),
    (
        "storage.unlink_tmp",
        (
            _driver("*/00000000000000000002.json.*.tmp"),
            _driver("*/00000000000000000000.json.*.tmp", early=True),
            _worker("*/stage/*.json.*.tmp"),
        ),
    ),
    (
        "storage.read.request",
        (_DATA, _FENCE, _OWNER, _worker("*/stage/results/*.json", 1, 2, 3), _SOURCES),
    ),
    # What is not there gives no reply.
    (
        "storage.read.reply",
        (_DATA, _FENCE, _OWNER, _worker("*/stage/results/*.json", 1, 2), _SOURCES),
    ),
    ("storage.status.request", (_worker("*/stop"), _driver("*/dt=*"))),
    ("storage.status.reply", (_driver("*/dt=*"),)),
    ("storage.list", (_driver("*/log", early=True), _driver("*/stage/*"))),
    (
        "storage.mkdir",
        (
            _driver("*/_sluiceway*", 1, 2, 3, early=True),
            _driver("*/dt=*", 1, 2),
            _worker("*/stage/*"),
            _driver("*/dirty"),
        ),
    ),
    ("storage.fsync_folder", (_worker("*/stage*", 1, 2),)),
    ("storage.open_read", (_worker("*.parquet", 1, 2),)),
    ("storage.remove", (_driver("*/stage/[!p]*", 1, 2),)),
    ("storage.staged.*", (_worker("*.parquet*", 1, 2),)),
    ("storage.s3.put", (_OWNER, _FENCE, _SOURCES, _DATA, _DATA, _RESULT, _PARQUET)),
    ("storage.s3.copy", (_driver("*.parquet", 1, 2, 3),)),
    ("storage.s3.delete", (_driver("*/stage/*", 1, 2),)),
    ("storage.s3.get.request", (_FENCE, _SOURCES, _OWNER, _RESULT)),
    # What is not there gives no reply.
    ("storage.s3.get.reply", (_FENCE, _SOURCES, _OWNER, _RESULT)),
    ("storage.s3.head.request", (_driver("*.parquet", 1, 2, 3),)),
    ("storage.s3.head.reply", (_driver("*.parquet", 1, 2),)),
    ("storage.s3.list", (_driver("*/log", early=True), _driver("*/stage/*"))),
    ("storage.hdfs.rename", (_OWNER, _FENCE, _SOURCES, _DATA, _DATA, _RESULT, _PARQUET)),
    ("storage.hdfs.replace", (_driver("*/lease.json", early=True), _driver("*/status.json"))),
    (
        "storage.hdfs.put",
        (_driver("*/00000000000000000002.json.*.tmp"), _worker("*/stage/*.json.*.tmp")),
    ),
    ("storage.hdfs.create", (_PARQUET,)),
    (
        "storage.hdfs.write",
        (_driver("*/00000000000000000002.json.*.tmp"), _worker("*/stage/*.json.*.tmp")),
    ),
    ("storage.hdfs.hsync", (_driver("*/00000000000000000002.json.*.tmp"), _PARQUET)),
    ("storage.hdfs.close", (_driver("*/00000000000000000002.json.*.tmp"), _PARQUET)),
    ("storage.hdfs.mkdirs", (_driver("*/_sluiceway*", early=True), _worker("*/stage/*"))),
    ("storage.hdfs.read.request", (_FENCE, _SOURCES, _OWNER, _RESULT)),
    ("storage.hdfs.read.reply", (_FENCE, _SOURCES, _OWNER, _RESULT)),
    ("storage.hdfs.open_read", (_worker("*.parquet", 1, 2),)),
    ("storage.hdfs.status", (_driver("*/_sluiceway*", early=True),)),
    ("storage.hdfs.list", (_driver("*/log", early=True), _driver("*/stage/*"))),
    ("storage.hdfs.remove", (_driver("*/stage/[!p]*", 1, 2),)),
    ("metastore.connect", (_START,)),
    ("metastore.read_table", (_START, _driver("*", 4))),
    ("metastore.read_database", (_START,)),
    ("metastore.create_*", (_START,)),
    ("metastore.alter_table", (_START,)),
    ("metastore.read_partitions", (_driver(),)),
    ("metastore.add_partitions", (_driver(),)),
    ("metastore.alter_partitions", (Visit(Role.DRIVER, scene=Scene.TRUSTED),)),
    ("kafka.describe", (_START, _driver("*", 3))),
    ("kafka.list_topics", (Visit(Role.DRIVER, early=True, scene=Scene.PATTERN),)),
    ("kafka.list_offsets", (_driver("*", 1, 2, 3, early=True), _driver("*", 7, 8))),
    ("kafka.committed", (Visit(Role.DRIVER, early=True, scene=Scene.GROUP),)),
    ("kafka.report", (_driver(),)),
    ("kafka.assign", (_worker(),)),
    ("kafka.consume", (_worker(),)),
    ("kafka.read_again", (_worker(),)),
    ("step.fenc*", (_START,)),
    ("step.recovered", (_START,)),
    ("step.pinned", (_START,)),
    ("step.planned", (_START,)),
    ("step.applied", (_START, _driver("*", 2))),
    ("step.*", (_driver(),)),
    ("task.*", (_worker(),)),
    ("lease.renew", (_START,)),
    ("lease.release", (_driver(),)),
    ("publish.file", (_driver("*", 1, 2, 4),)),
    ("publish.drop", (_driver(),)),
    # How often depends on how many records the thread finds at once; the first time is sure.
    ("effects.appl*", (_START,)),
    ("run.settle", (_driver(),)),
    # Lanes run in the driver, which here has nothing else to do, so no task is ever launched.
    ("lane.answer", (_lane("*", 1, 2, 3),)),
    ("lane.*", (_lane(),)),
    # Each of two hours has several files, which a process of its own merges.
    ("rewrite.file", (_rewriter("*", 1, 2, 3),)),
    ("rewrite.done", (_rewriter(),)),
    ("announce.*", (_hours("*", 1, 2),)),
    ("lineage.*", (_hours("*", 1, 3),)),
    # A driver looks at the table before it reads, and publishes several batches.
    ("lake.load", (_keyed(early=True), _keyed("*", 2, 3))),
    ("lake.*", (_keyed("*", 1, 2),)),
)
"""Pattern of points, with or without their side; the first match counts."""

_OPENED = _lane("*/log/*.json", 2)
_EPOCH = _lane("*/log/*.json", 5)
_ATTEMPT = "*/stage/[0-9]*"

LANE_VISITS: Final[tuple[tuple[str, tuple[Visit, ...]], ...]] = (
    ("storage.list", (_lane("*/requests"), _lane(_ATTEMPT))),
    ("storage.read", (_lane("*/requests/*.json", 1, 2, 3),)),
    ("storage.remove", (_lane("*/requests/*", 1, 2, 3), _lane(_ATTEMPT))),
    ("storage.overwrite.*", (_lane("*/requests/*.answer.json"),)),
    ("storage.put.*", (_OPENED, _EPOCH)),
    ("storage.unlink_tmp", (_lane("*/stage/*.json.*.tmp", 2, 5),)),
    ("storage.open_read", (_lane("*/dirty/*.parquet"), _lane("*/stage/*.parquet", 1, 2))),
    ("storage.mkdir", (_lane(_ATTEMPT),)),
    ("storage.fsync_folder", (_lane(_ATTEMPT), _lane("*/stage"))),
    ("storage.staged.*", (_lane("*.parquet*", 1, 2),)),
    ("storage.publish.*", (_lane("*.parquet", 1, 2),)),
    ("publish.file", (_lane("*", 1, 2),)),
    ("publish.drop", (_lane(),)),
    ("step.pinned", (_lane("*", 1, 2),)),
    ("step.prepared", (_lane(),)),
    ("step.committed", (_lane("*", 1, 2),)),
    ("step.published", (_lane("*", 1, 2),)),
)
"""Where requests, a replay and a purge meet points that others meet too."""


_RECORDS = _hours("*/log/*.json", 2, 3, 4, 5, 6)
_STAGED = "*/stage/i*.parquet*"
_MOVED = "*/_sluiceway-*"

HOURS_VISITS: Final[tuple[tuple[str, tuple[Visit, ...]], ...]] = (
    ("storage.put.*", (_RECORDS,)),
    ("storage.mkdir", (_hours("*/stage/i*"), _hours(_MOVED))),
    ("storage.open_read", (_rewriter("*/dt=*.parquet", 1, 2),)),
    ("storage.staged.*", (_rewriter(_STAGED),)),
    ("storage.publish.*", (_hours(_MOVED, 1, 2),)),
    ("publish.file", (_hours(_MOVED, 1, 2),)),
    ("storage.read.request", (_hours("*/told-*.json", 1, 2),)),
    ("storage.status.request", (_hours("*/_SUCCESS", 1, 2),)),
    ("storage.overwrite.*", (_hours("*/_SUCCESS"), _hours("*/told-*.json", 3, 4))),
    ("metastore.read_partitions", (_hours(),)),
    ("metastore.add_partitions", (_hours(),)),
    ("metastore.alter_table", (_hours(),)),
)
"""Where compaction, what is shown to readers and what others are told meet points of all."""

KEYED_VISITS: Final[tuple[tuple[str, tuple[Visit, ...]], ...]] = (
    ("storage.put.*", (_keyed("*/log/*.json", 3, 4, 5),)),
    ("storage.open_read", (_keyed("*.parquet", 1, 2, 3),)),
    ("storage.staged.*", (_keyed("*/data/*.parquet*", 1, 2, 3),)),
    ("publish.file", (_keyed("*", 1, 2, 3),)),
    ("step.committed", (_keyed("*", 1, 2),)),
    ("step.published", (_keyed("*", 1, 2),)),
)
"""Where the publisher of a keyed table, and the epochs that it follows, meet points of all."""

QUEUES_VISITS: Final[tuple[tuple[str, tuple[Visit, ...]], ...]] = (
    ("rocketmq.connect", (_queues(1, 2, early=True), _puller(1, 2))),
    ("rocketmq.topics", (_queues(early=True),)),
    ("rocketmq.route", (_queues(early=True), _queues(2))),
    ("rocketmq.cluster", (_puller(),)),
    ("rocketmq.bounds", (_queues(1, 2, 3, early=True), _queues(8, 9))),
    (
        "rocketmq.search",
        (Visit(Role.DRIVER, early=True, scene=Scene.QUEUES_BY_TIME),),
    ),
    ("rocketmq.committed", (_queues(early=True),)),
    ("rocketmq.report", (_queues(1, 2),)),
    ("rocketmq.pull", (_puller(1, 2),)),
    ("rocketmq.receive", (_queues(1, 2, 3, early=True), _puller(1, 2))),
    ("storage.put.link", (_queues(place="*/00000000000000000002.json"),)),
    ("step.planned", (_queues(early=True),)),
    ("step.written", (_queues(),)),
    ("step.prepared", (_queues(),)),
    ("step.committed", (_queues(),)),
    ("step.published", (_queues(),)),
    ("task.*", (_puller(),)),
    ("publish.file", (_queues(1, 2),)),
    ("run.settle", (_queues(),)),
)
"""Where a job on RocketMQ meets points of its source, and while it commits those of all."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Cells that are left out, and why.

    Attributes:
        points: Patterns of points.
        early: Only where the point is met before the first task.
    """

    name: str
    reason: str
    faults: frozenset[Fault]
    points: tuple[str, ...] = ("*",)
    early: bool = False

    def covers(self, point: str, fault: Fault, *, early: bool) -> bool:
        """Whether the cell is left out by this rule."""
        return (
            fault in self.faults
            and (early or not self.early)
            and any(fnmatchcase(point, pattern) for pattern in self.points)
        )


_LOSSES = frozenset({Fault.LOSE_REQUEST, Fault.LOSE_REPLY})
_ERRORS = _LOSSES | {Fault.RAISE, Fault.ENOSPC}
_MARKS = (
    *("step.*", "task.*", "lease.*", "publish.*", "effects.*", "run.*", "lane.*", "rewrite.*"),
    *("lake.placed", "lake.resolved"),
)

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "no-such-call",
        "no driver makes this call; tests and tools do",
        frozenset(Fault),
        ("metastore.list_partitions.*",),
    ),
    Rule(
        "lake-table",
        "compaction and expiry of lake tables: their drivers die in test_iceberg_compaction",
        frozenset(Fault),
        ("lake.expired", "lake.replacing", "lake.rewritten"),
    ),
    Rule(
        "backfill",
        "a prefix that is read again: its drivers and processes die in test_backfill_kills",
        frozenset(Fault),
        ("swap.*", "backfill.close"),
    ),
    Rule(
        "recompute",
        "units of a table: their drivers die in test_recompute_kills",
        frozenset(Fault),
        ("unit.*",),
    ),
    Rule(
        "no-such-call",
        "files of the cells are small; tests of the store send large ones, and abandon them",
        frozenset(Fault),
        tuple(
            f"storage.s3.{name}.*"
            for name in (
                *("begin_upload", "upload_part", "complete_upload", "abort_upload"),
                "list_uploads",
            )
        ),
    ),
    Rule("no-call", "a mark is no call: there is nothing to be lost", _LOSSES, _MARKS),
    Rule(
        "lost-too-late",
        "after the reply the request cannot be lost any more",
        frozenset({Fault.LOSE_REQUEST}),
        ("*.reply",),
    ),
    Rule(
        "lost-too-early",
        "before the request there is no reply to lose",
        frozenset({Fault.LOSE_REPLY}),
        ("*.request",),
    ),
    Rule(
        "raise-is-lost",
        "an error instead of the reply is the case lose-reply",
        frozenset({Fault.RAISE}),
        ("*.reply",),
    ),
    Rule(
        "needs-no-space",
        "the call takes no space on the disk, or has taken it by now",
        frozenset({Fault.ENOSPC}),
        (*_MARKS, "metastore.*", "lake.*", "kafka.*", "rocketmq.*", "announce.*", "*.reply"),
    ),
    Rule(
        "needs-no-space",
        "the call takes no space on the disk, or has taken it by now",
        frozenset({Fault.ENOSPC}),
        tuple(
            f"storage.{name}.request"
            for name in (
                *("put.fsync_folder", "publish.fsync_folder", "publish.unlink"),
                *("publish.fsync_stage", "unlink_tmp", "read", "status", "list"),
                *("fsync_folder", "open_read", "remove"),
            )
        ),
    ),
    Rule(
        "no-worker-yet",
        "no Python worker lives before the first task, or where none is launched",
        frozenset({Fault.KILL_WORKER}),
        early=True,
    ),
    Rule(
        "thread-of-nothing-else",
        "there is no call that could fail: an error here would be one of Python itself",
        _ERRORS,
        ("lease.*",),
    ),
)
"""A cell is left out by the first rule that covers it; it is counted under that rule's name."""
