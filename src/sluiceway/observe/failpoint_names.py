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


class FailpointSide(StrEnum):
    """What stands on the other side of a point; it decides the class of the error raised there."""

    POSIX = "posix"
    THRIFT = "thrift"
    KAFKA = "kafka"
    CODE = "code"


EDGES: Final[Mapping[str, FailpointSide]] = MappingProxyType(
    {
        "storage.put.open": FailpointSide.POSIX,
        "storage.put.write": FailpointSide.POSIX,
        "storage.put.fsync": FailpointSide.POSIX,
        "storage.put.link": FailpointSide.POSIX,
        "storage.put.fsync_folder": FailpointSide.POSIX,
        "storage.publish.link": FailpointSide.POSIX,
        "storage.publish.fsync_folder": FailpointSide.POSIX,
        "storage.publish.unlink": FailpointSide.POSIX,
        "storage.publish.fsync_stage": FailpointSide.POSIX,
        "storage.overwrite.write": FailpointSide.POSIX,
        "storage.overwrite.rename": FailpointSide.POSIX,
        "storage.unlink_tmp": FailpointSide.POSIX,
        "storage.read": FailpointSide.POSIX,
        "storage.status": FailpointSide.POSIX,
        "storage.list": FailpointSide.POSIX,
        "storage.mkdir": FailpointSide.POSIX,
        "storage.fsync_folder": FailpointSide.POSIX,
        "storage.open_read": FailpointSide.POSIX,
        "storage.remove": FailpointSide.POSIX,
        "storage.staged.create": FailpointSide.POSIX,
        "storage.staged.write": FailpointSide.POSIX,
        "storage.staged.fsync": FailpointSide.POSIX,
        "storage.staged.rename": FailpointSide.POSIX,
        "storage.s3.put": FailpointSide.POSIX,
        "storage.s3.copy": FailpointSide.POSIX,
        "storage.s3.delete": FailpointSide.POSIX,
        "storage.s3.begin_upload": FailpointSide.POSIX,
        "storage.s3.upload_part": FailpointSide.POSIX,
        "storage.s3.complete_upload": FailpointSide.POSIX,
        "storage.s3.abort_upload": FailpointSide.POSIX,
        "storage.s3.get": FailpointSide.POSIX,
        "storage.s3.head": FailpointSide.POSIX,
        "storage.s3.list": FailpointSide.POSIX,
        "storage.s3.list_uploads": FailpointSide.POSIX,
        "storage.hdfs.put": FailpointSide.POSIX,
        "storage.hdfs.write": FailpointSide.POSIX,
        "storage.hdfs.hsync": FailpointSide.POSIX,
        "storage.hdfs.close": FailpointSide.POSIX,
        "storage.hdfs.rename": FailpointSide.POSIX,
        "storage.hdfs.replace": FailpointSide.POSIX,
        "storage.hdfs.create": FailpointSide.POSIX,
        "storage.hdfs.mkdirs": FailpointSide.POSIX,
        "storage.hdfs.read": FailpointSide.POSIX,
        "storage.hdfs.open_read": FailpointSide.POSIX,
        "storage.hdfs.status": FailpointSide.POSIX,
        "storage.hdfs.list": FailpointSide.POSIX,
        "storage.hdfs.remove": FailpointSide.POSIX,
        "metastore.connect": FailpointSide.POSIX,
        "metastore.read_table": FailpointSide.THRIFT,
        "metastore.read_database": FailpointSide.THRIFT,
        "metastore.create_database": FailpointSide.THRIFT,
        "metastore.create_table": FailpointSide.THRIFT,
        "metastore.alter_table": FailpointSide.THRIFT,
        "metastore.list_partitions": FailpointSide.THRIFT,
        "metastore.read_partitions": FailpointSide.THRIFT,
        "metastore.add_partitions": FailpointSide.THRIFT,
        "metastore.alter_partitions": FailpointSide.THRIFT,
        "lake.load": FailpointSide.THRIFT,
        "lake.send": FailpointSide.THRIFT,
        "kafka.describe": FailpointSide.KAFKA,
        "kafka.list_topics": FailpointSide.KAFKA,
        "kafka.list_offsets": FailpointSide.KAFKA,
        "kafka.committed": FailpointSide.KAFKA,
        "kafka.report": FailpointSide.KAFKA,
        "kafka.assign": FailpointSide.KAFKA,
        "kafka.consume": FailpointSide.KAFKA,
        "kafka.read_again": FailpointSide.KAFKA,
        "rocketmq.connect": FailpointSide.POSIX,
        "rocketmq.topics": FailpointSide.POSIX,
        "rocketmq.route": FailpointSide.POSIX,
        "rocketmq.cluster": FailpointSide.POSIX,
        "rocketmq.bounds": FailpointSide.POSIX,
        "rocketmq.search": FailpointSide.POSIX,
        "rocketmq.committed": FailpointSide.POSIX,
        "rocketmq.report": FailpointSide.POSIX,
        "rocketmq.pull": FailpointSide.POSIX,
        "rocketmq.receive": FailpointSide.POSIX,
        "announce.webhook": FailpointSide.POSIX,
        "announce.kafka": FailpointSide.KAFKA,
        "lineage.tell": FailpointSide.POSIX,
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
    "backfill.close",
    "swap.begun",
    "swap.landed",
    "swap.landing",
    "swap.written",
    "unit.announcing",
    "unit.done",
    "unit.started",
    "unit.written",
)
"""Points between calls; an error raised there is a bug's."""

POINTS: Final[Mapping[str, FailpointSide]] = MappingProxyType(
    {f"{edge}.{side}": kind for edge, kind in EDGES.items() for side in (REQUEST, REPLY)}
    | dict.fromkeys(MARKS, FailpointSide.CODE)
)
"""Every failpoint and what stands on its other side."""
