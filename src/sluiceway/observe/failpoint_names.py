"""All failpoints by name: what a process can be made to die at, or to see fail.

An edge is a call to the world. It has two points, `<edge>.request` before the call and
`<edge>.reply` after it. A mark is one point between calls.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from sluiceway.observe.steps import Step

REQUEST: Final = "request"
REPLY: Final = "reply"


class Kind(StrEnum):
    """What stands on the other side of a point; it tells the class of the error raised there."""

    POSIX = "posix"
    THRIFT = "thrift"
    KAFKA = "kafka"
    CODE = "code"


EDGES: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "storage.put.open": Kind.POSIX,
        "storage.put.write": Kind.POSIX,
        "storage.put.fsync": Kind.POSIX,
        "storage.put.link": Kind.POSIX,
        "storage.put.fsync_folder": Kind.POSIX,
        "storage.publish.link": Kind.POSIX,
        "storage.publish.fsync_folder": Kind.POSIX,
        "storage.publish.unlink": Kind.POSIX,
        "storage.publish.fsync_stage": Kind.POSIX,
        "storage.overwrite.write": Kind.POSIX,
        "storage.overwrite.rename": Kind.POSIX,
        "storage.unlink_tmp": Kind.POSIX,
        "storage.read": Kind.POSIX,
        "storage.status": Kind.POSIX,
        "storage.list": Kind.POSIX,
        "storage.mkdir": Kind.POSIX,
        "storage.fsync_folder": Kind.POSIX,
        "storage.open_read": Kind.POSIX,
        "storage.remove": Kind.POSIX,
        "storage.staged.create": Kind.POSIX,
        "storage.staged.write": Kind.POSIX,
        "storage.staged.fsync": Kind.POSIX,
        "storage.staged.rename": Kind.POSIX,
        "storage.s3.put": Kind.POSIX,
        "storage.s3.copy": Kind.POSIX,
        "storage.s3.delete": Kind.POSIX,
        "storage.s3.begin_upload": Kind.POSIX,
        "storage.s3.upload_part": Kind.POSIX,
        "storage.s3.complete_upload": Kind.POSIX,
        "storage.s3.abort_upload": Kind.POSIX,
        "storage.s3.get": Kind.POSIX,
        "storage.s3.head": Kind.POSIX,
        "storage.s3.list": Kind.POSIX,
        "storage.s3.list_uploads": Kind.POSIX,
        "storage.hdfs.put": Kind.POSIX,
        "storage.hdfs.write": Kind.POSIX,
        "storage.hdfs.hsync": Kind.POSIX,
        "storage.hdfs.close": Kind.POSIX,
        "storage.hdfs.rename": Kind.POSIX,
        "storage.hdfs.replace": Kind.POSIX,
        "storage.hdfs.create": Kind.POSIX,
        "storage.hdfs.mkdirs": Kind.POSIX,
        "storage.hdfs.read": Kind.POSIX,
        "storage.hdfs.open_read": Kind.POSIX,
        "storage.hdfs.status": Kind.POSIX,
        "storage.hdfs.list": Kind.POSIX,
        "storage.hdfs.remove": Kind.POSIX,
        "metastore.connect": Kind.POSIX,
        "metastore.read_table": Kind.THRIFT,
        "metastore.read_database": Kind.THRIFT,
        "metastore.create_database": Kind.THRIFT,
        "metastore.create_table": Kind.THRIFT,
        "metastore.alter_table": Kind.THRIFT,
        "metastore.list_partitions": Kind.THRIFT,
        "metastore.read_partitions": Kind.THRIFT,
        "metastore.add_partitions": Kind.THRIFT,
        "metastore.alter_partitions": Kind.THRIFT,
        "lake.load": Kind.THRIFT,
        "lake.send": Kind.THRIFT,
        "kafka.describe": Kind.KAFKA,
        "kafka.list_topics": Kind.KAFKA,
        "kafka.list_offsets": Kind.KAFKA,
        "kafka.committed": Kind.KAFKA,
        "kafka.report": Kind.KAFKA,
        "kafka.assign": Kind.KAFKA,
        "kafka.consume": Kind.KAFKA,
        "kafka.read_again": Kind.KAFKA,
        "rocketmq.connect": Kind.POSIX,
        "rocketmq.topics": Kind.POSIX,
        "rocketmq.route": Kind.POSIX,
        "rocketmq.cluster": Kind.POSIX,
        "rocketmq.bounds": Kind.POSIX,
        "rocketmq.search": Kind.POSIX,
        "rocketmq.committed": Kind.POSIX,
        "rocketmq.report": Kind.POSIX,
        "rocketmq.pull": Kind.POSIX,
        "rocketmq.receive": Kind.POSIX,
        "announce.webhook": Kind.POSIX,
        "announce.kafka": Kind.KAFKA,
        "lineage.tell": Kind.POSIX,
    }
)
"""Calls, and what answers them."""

MARKS: Final[tuple[str, ...]] = (
    *(f"step.{step}" for step in Step),
    "task.start",
    "task.write",
    "task.close",
    "task.put",
    "task.return",
    "lease.renew",
    "lease.release",
    "publish.file",
    "publish.drop",
    "effects.apply",
    "effects.applied",
    "lake.expired",
    "lake.placed",
    "lake.replacing",
    "lake.resolved",
    "lake.rewritten",
    "run.settle",
    "lane.answer",
    "lane.refuse",
    "lane.read",
    "lane.close",
    "rewrite.file",
    "rewrite.done",
)
"""Points between calls; an error raised there is a bug's."""

POINTS: Final[Mapping[str, Kind]] = MappingProxyType(
    {f"{edge}.{side}": kind for edge, kind in EDGES.items() for side in (REQUEST, REPLY)}
    | dict.fromkeys(MARKS, Kind.CODE)
)
"""Every failpoint and what stands on its other side."""
