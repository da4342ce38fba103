"""Is everything there that a job needs? Each check says what it found and how to mend it.

Nothing stays: only the store is written to, in a folder that is removed again.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from uuid import uuid4

from sluiceway.audit.format_times import counted
from sluiceway.audit.planned_route import PlannedRoute, foresee_route, foresee_source
from sluiceway.audit.row_preview import newest_splits
from sluiceway.errors import SluicewayError
from sluiceway.host.java import JAVA_HOME, find_java
from sluiceway.host.machine import (
    free_disk_bytes,
    free_memory_bytes,
    local_slots,
    open_files_limit,
    processes_limit,
)
from sluiceway.host.native_module import native_module
from sluiceway.host.spark_master import STANDALONE, reachable_master
from sluiceway.jobfile.blocks.models import JobSpec, RouteSpec
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.schema_formats import named_registry
from sluiceway.route.clients import open_source
from sluiceway.route.registry_columns import read_subject
from sluiceway.sinks.registry import METASTORE, read_metastore
from sluiceway.sources.contract import TABLE_TOPIC, Split
from sluiceway.sources.topic_sample import read_splits
from sluiceway.storage.contract import Storage

_MIB = 1 << 20
_DRIVER_BYTES = 1024 * _MIB
_LEAST_DISK_BYTES, _LITTLE_DISK_BYTES = 256 * _MIB, 2048 * _MIB
_LEAST_FILES, _FILES_OF_A_PROCESS = 512, 256
_LEAST_PROCESSES = 512
_CLOCK_S = 5.0


class Health(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARNING = "warning"
    BAD = "bad"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check.

    Attributes:
        check: What was looked at: `broker`, `java` and so on.
        subject: Which one: a connection, a topic, a table, a folder.
        health: How it came out.
        found: In words.
        fix: What to do; empty when nothing is to be done.
    """

    check: str
    subject: str
    health: Health
    found: str
    fix: str = ""


def check_machine(spec: JobSpec) -> Iterator[Finding]:
    """Java, memory, room and limits of the machine that the driver runs on.

    Args:
        spec: The job: says how many tasks run here and what each may take.
    """
    yield _java()
    yield _native()
    yield _master(spec)
    yield _memory(spec)
    yield _disk("temporary files", tempfile.gettempdir(), "set TMPDIR to a folder with more room")
    yield _open_files(spec)
    yield _processes()


def check_servers(spec: JobSpec, routes: Sequence[RouteConfig]) -> Iterator[Finding]:
    """Brokers, topics, registries, metastores, tables and stores of a job's routes.

    Args:
        spec: The job.
        routes: Its routes.
    """
    for config in {config.source: config for config in routes}.values():
        check = "source" if _tables(config) else "broker"
        yield _guarded(check, _brokers(config), partial(_broker, config, check))
    for route in spec.routes:
        if named_registry(route) is not None:
            yield _guarded("registry", route.route or spec.name, partial(_registry, route))
    for config in {config.table.metastore: config for config in routes}.values():
        if config.catalog.kind == METASTORE:
            yield from _metastore(config)
    seen: set[str] = set()
    for config in routes:
        yield from _route(config, seen)


def _guarded(check: str, subject: str, look: Callable[[], Finding]) -> Finding:
    """Run one check; an error becomes a finding too."""
    try:
        return look()
    except SluicewayError as error:
        return _failed(check, subject, error)


def _failed(check: str, subject: str, error: SluicewayError) -> Finding:
    where = f"{error.where}: " if error.where and error.where != subject else ""
    fix = error.hint or f"see `sluiceway explain {error.code}`"
    return Finding(check, subject, Health.BAD, f"[{error.code}] {where}{error.message}", fix)


def _java() -> Finding:
    try:
        java = find_java()
    except SluicewayError as error:
        return _failed("java", os.environ.get(JAVA_HOME, ""), error)
    if java.passed_over:
        return Finding(
            "java", str(java.path), Health.WARNING, java.passed_over, f"set JAVA_HOME={java.path}"
        )
    return Finding("java", str(java.path), Health.OK, f"Java {java.major} ({java.vendor})")


def _native() -> Finding:
    if native_module() is not None:
        return Finding("native", "sluiceway-native", Health.OK, "it is used")
    found = "not used: reading JSON takes about three times the CPU a record"
    return Finding(
        "native",
        "sluiceway-native",
        Health.WARNING,
        found,
        "see docs/guides/clusters-and-stores.md, The native module",
    )


def _master(spec: JobSpec) -> Finding:
    master = spec.run.master
    if local_slots(master) is not None:
        return Finding("spark", master, Health.OK, f"{local_slots(master)} tasks at once, here")
    if master == "yarn":
        named = [name for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if os.environ.get(name)]
        if named:
            return Finding("spark", master, Health.OK, f"{named[0]} is set")
        fix = "set HADOOP_CONF_DIR to the folder with yarn-site.xml"
        return Finding("spark", master, Health.BAD, "nothing says where YARN is", fix)
    if not master.startswith(STANDALONE):
        return Finding("spark", master, Health.SKIPPED, "Kubernetes is not asked")
    try:
        server = reachable_master(master)
    except OSError as error:
        found = f"no connection: {error.strerror or error}"
        return Finding("spark", master, Health.BAD, found, "start it or correct run.master")
    return Finding("spark", master, Health.OK, f"{server} takes connections")


def _memory(spec: JobSpec) -> Finding:
    slots, free = local_slots(spec.run.master), free_memory_bytes()
    if slots is None or free is None:
        return Finding("memory", "tasks", Health.SKIPPED, "tasks run elsewhere, or it is not known")
    each = spec.run.memory_per_task_bytes
    wanted = slots * each + _DRIVER_BYTES
    found = (
        f"{slots} tasks of {each // _MIB:,} MiB and the driver take up to {wanted // _MIB:,} MiB; "
        f"{free // _MIB:,} MiB are free"
    )
    if wanted <= free:
        return Finding("memory", "tasks", Health.OK, found)
    fix = "lower run.memory_per_task, write run.master: local[N], or end other programs"
    least = each + _DRIVER_BYTES
    return Finding("memory", "tasks", Health.BAD if least > free else Health.WARNING, found, fix)


def _disk(what: str, folder: str, fix: str) -> Finding:
    try:
        free = free_disk_bytes(folder)
    except OSError as error:
        return Finding("disk", folder, Health.BAD, f"{what}: {error.strerror}", fix)
    found = f"{what}: {free // _MIB:,} MiB are free"
    if free < _LEAST_DISK_BYTES:
        return Finding("disk", folder, Health.BAD, found, fix)
    little = free < _LITTLE_DISK_BYTES
    return Finding(
        "disk", folder, *((Health.WARNING, found, fix) if little else (Health.OK, found))
    )


def _open_files(spec: JobSpec) -> Finding:
    limit = open_files_limit()
    most = sum(route.files.max_open for route in spec.routes)
    wanted = _FILES_OF_A_PROCESS + most
    if limit is None or limit >= wanted:
        shown = "no bound" if limit is None else f"{limit:,}"
        return Finding("ulimit", "open files", Health.OK, f"{shown}; up to {wanted:,} are used")
    fix = f"ulimit -n {max(wanted, 4096)}, or LimitNOFILE= of the service; or lower files.max_open"
    health = Health.BAD if limit < _LEAST_FILES else Health.WARNING
    return Finding("ulimit", "open files", health, f"{limit:,}; up to {wanted:,} are used", fix)


def _processes() -> Finding:
    limit = processes_limit()
    if limit is None or limit >= _LEAST_PROCESSES:
        shown = "no bound" if limit is None else f"{limit:,}"
        return Finding("ulimit", "processes", Health.OK, shown)
    fix = f"ulimit -u {_LEAST_PROCESSES * 8}, or TasksMax= of the service"
    return Finding("ulimit", "processes", Health.WARNING, f"{limit:,} for this user", fix)


def _tables(config: RouteConfig) -> tuple[str, ...]:
    """Tables that the route reads in place of topics."""
    return tuple(each for each in config.topics if each.startswith(TABLE_TOPIC))


def _brokers(config: RouteConfig) -> str:
    if tables := _tables(config):
        return ", ".join(tables)
    options = dict(config.source.options)
    return options.get("bootstrap.servers", config.source.kind)


def _broker(config: RouteConfig, check: str) -> Finding:
    started = time.monotonic()
    source = open_source(config)
    try:
        topics = source.list_topics()
    finally:
        source.close()
    has = "" if _tables(config) else f", has {counted(len(topics), 'topic')}"
    found = f"answers in {(time.monotonic() - started) * 1000:.0f} ms{has}"
    return Finding(check, _brokers(config), Health.OK, found)


def _registry(route: RouteSpec) -> Finding:
    topics = route.source.names
    if not topics:
        return Finding("registry", route.route, Health.SKIPPED, "its topics are not known yet")
    found = read_subject(route, topics)
    return Finding(
        "registry", found.subject, Health.OK, f"answers; the newest is version {found.version}"
    )


def _metastore(config: RouteConfig) -> Iterator[Finding]:
    subject = config.table.metastore
    try:
        seen = read_metastore(config.table)
    except SluicewayError as error:
        yield _failed("metastore", subject, error)
        return
    if seen is None:
        return
    shown = f"version {seen.version}" if seen.version else "does not say its version"
    if seen.default_location is None:
        fix = "run `schematool -initSchema`, or name another metastore"
        found = f"{shown}; no database `default`"
        yield Finding("metastore", subject, Health.BAD, found, fix)
    else:
        found = f"{shown}; new tables in {seen.default_location}"
        yield Finding("metastore", subject, Health.OK, found)


def _route(config: RouteConfig, seen: set[str]) -> Iterator[Finding]:
    """Table, store and topics of a route; `seen` are volumes that were tried."""
    table = f"{config.table.database}.{config.table.table}"
    try:
        route = foresee_route(config)
    except SluicewayError as error:
        yield _failed("table", table, error)
        yield Finding("store", table, Health.SKIPPED, "it is not known where the table lies")
        return
    state = route.table.state
    if state.warnings:
        yield Finding(
            "table",
            table,
            Health.WARNING,
            "; ".join(state.warnings),
            "see docs/guides/hive-tables.md",
        )
    else:
        found = "is as the job file says" if route.table.exists else "is created by the first run"
        place = route.place or "where the catalog puts it"
        yield Finding("table", table, Health.OK, f"{found}: {place}")
    if not route.table.home:
        told = "the catalog says where the table lies once it is created"
        yield Finding("store", table, Health.SKIPPED, told)
        yield from _topics(route)
        return
    yield _guarded("store", route.place, partial(_store, route, seen))
    yield from _topics(route)


def _store(route: PlannedRoute, seen: set[str]) -> Finding:
    """Write and read in the store, once for each volume, in a folder that is removed."""
    root, shown = route.layout.table_root, route.place
    folder = _nearest(route.storage, root)
    volume = f"{type(route.storage).__name__} {route.storage.volume(folder)}"
    if volume in seen:
        return Finding("store", shown, Health.OK, "as the one above")
    place = f"{folder}/.sluiceway-doctor-{uuid4().hex}"
    route.storage.make_folders(place)
    try:
        route.storage.probe(place)
    finally:
        route.storage.remove(place)
    seen.add(volume)
    found = "one of many writers wins, files are published once"
    if root.startswith("/"):
        disk = _disk("the table", folder, "make room, or give the table another location")
        if disk.health is not Health.OK:
            return replace(disk, check="store")
        found = f"{found}; {disk.found}"
    return Finding("store", shown, Health.OK, found)


def _nearest(storage: Storage, folder: str) -> str:
    """The folder, or the first above it that exists."""
    if not storage.has_folders:
        return folder
    while storage.status(folder) is None and folder.count("/") > 1:
        folder = folder.rpartition("/")[0]
    return folder


def _topics(route: PlannedRoute) -> Iterator[Finding]:
    """Each topic: is it there, may it be read, does its clock agree with this machine's?"""
    name = ", ".join(route.config.topics[:3]) or route.config.pattern
    try:
        source = foresee_source(route)
    except SluicewayError as error:
        yield _failed("topic", name, error)
        return
    for problem in (*source.problems, *source.lost):
        yield _failed("topic", name, problem)
    for topic in dict.fromkeys(start.partition.topic for start in source.starts):
        starts = [start for start in source.starts if start.partition.topic == topic]
        splits = newest_splits(starts, len(starts))
        yield from _read_topic(route, topic, len(starts), splits)


def _read_topic(
    route: PlannedRoute, topic: str, partitions: int, splits: Sequence[Split]
) -> Iterator[Finding]:
    newest: int | None = None
    try:
        for batch in read_splits(route.config.source, list(splits)):
            times = [each for each in batch.timestamps_ms() if each is not None]
            newest = max([*times, newest or 0])
    except SluicewayError as error:
        yield _failed("topic", topic, error)
        return
    has = counted(partitions, "partition")
    if not splits:
        yield Finding("topic", topic, Health.OK, f"{has}, empty")
        return
    yield Finding("topic", topic, Health.OK, f"{has}; a record was read")
    if newest:
        yield _clock(topic, newest)


def _clock(topic: str, newest_ms: int) -> Finding:
    ahead_s = newest_ms / 1000 - time.time()
    if ahead_s <= _CLOCK_S:
        return Finding("clock", topic, Health.OK, "no record is of the future")
    found = f"its newest record is {ahead_s:,.0f} s ahead of this machine's clock"
    fix = "set the clocks of this machine, the brokers and the producers: chronyc tracking"
    return Finding("clock", topic, Health.WARNING, found, fix)
