"""A valid job file in a few lines for people: for `validate`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sluiceway.audit.format_times import moment
from sluiceway.cli.room_option import names_all_rooms
from sluiceway.cli.views.file_forecast import file_forecast
from sluiceway.jobfile.blocks.event_time import (
    DEFAULT_ARCHIVE_WINDOW_MS,
    TABLE_IN_NAME,
    UNLIMITED,
    late_table_name,
)
from sluiceway.jobfile.blocks.http_receiver import url_host
from sluiceway.jobfile.blocks.retention import duration_text
from sluiceway.jobfile.blocks.topic_pattern import pattern_of
from sluiceway.jobfile.blocks.values import revealed
from sluiceway.types.file_formats import COMPRESSIONS, PARQUET

if TYPE_CHECKING:
    from sluiceway.jobfile.blocks.columns import SubjectColumns
    from sluiceway.jobfile.blocks.lineage import LineageSpec
    from sluiceway.jobfile.blocks.models import JobSpec, RouteSpec
    from sluiceway.jobfile.blocks.table import HiveTable, PartitionSpec

_LATE_WORDS = {
    "side": "put aside",
    "redirect": "written to the current partition",
    "reopen": "written to their partition, which is announced again",
    "dirty": "dirty",
}


def summary_for_people(file: str, spec: "JobSpec") -> str:
    """Lines of name and value, the first one `OK FILE`.

    Args:
        file: The path, as the user typed it.
        spec: The spec of a valid job file.
    """
    commits = f"a commit every {spec.run.interval_ms / 1000:g} s"
    lines = [
        f"OK {file}",
        _line("job", spec.name + (f", owner {spec.owner}" if spec.owner else "")),
    ]
    if len(spec.routes) > 1:
        lines.append(_line("routes", f"{len(spec.routes)}, {commits}"))
    if (rooms := rooms_summary(spec)) is not None:
        lines.extend(_line(name, text) for name, text in _room_lines(rooms))
    if (told := spec.routes[0].lineage) is not None:
        lines.append(_line("lineage", _lineage(told)))
    for route in spec.routes:
        lines.extend(_route_lines(route, commits))
    return "\n".join([*lines, ""])


def _route_lines(route: "RouteSpec", commits: str) -> list[str]:
    hive = route.table.target
    name = hive.name if hive.is_template else hive.name.lower()
    created = "created if missing" if hive.create == "if_missing" else "has to exist"
    topics = f"all like `{route.source.pattern}`" if route.source.pattern else ""
    topics = topics or ", ".join(route.source.names)
    if there := names_in_room(route):
        named = ", ".join(f"{ours} is {theirs}" for ours, theirs in there.items())
        topics = f"{topics} (in room {route.room} {named})"
    why = f" ({route.start_reason})" if route.start_reason else ""
    forecast = file_forecast(route)
    rows = {
        "route": f"{route.route or 'one for each table'}, {commits}",
        "topics": f"{topics} from {route.start_at}{why}",
        "table": f"{name}, {created}, {_files(route.table.hive)}{_pace(route)}",
        "columns": _columns(route),
        "partitions": _partitions(route),
        "late rows": _late(route),
        "announced": _announced(route),
        "retention": _retention(route),
        "dirty rows": _dirty_rows(route),
        "files": forecast.words(),
        "warning": forecast.warning(),
    }
    lines = [_line(name, text) for name, text in rows.items() if text is not None]
    return [*lines, *(_line("warning", text) for text in null_warnings(route))]


def names_in_room(route: "RouteSpec") -> dict[str, str]:
    """Topics of the route that have another name in its room, and that name."""
    own = None if route.rooms is None else route.rooms.named_rooms.get(route.room)
    source, pattern = route.source, pattern_of(route.source.topics)
    return {
        ours: theirs
        for ours, theirs in ({} if own is None else own.topics).items()
        if ours in source.names or (pattern is not None and pattern.fullmatch(ours))
    }


def rooms_summary(spec: "JobSpec") -> dict[str, Any] | None:
    """The rooms of a job, and what only a running room can check; None without rooms."""
    rooms = spec.routes[0].rooms
    if rooms is None:
        return None
    read = list(rooms.names) if names_all_rooms() else [spec.routes[0].room or rooms.home]
    doctor = "`sluiceway doctor JOB --room ROOM`"
    unchecked = [("addresses, topics and table of each room", doctor)]
    if rooms.storage == "copied":
        adopt = "`sluiceway adopt JOB --dry-run`"
        unchecked.append(("a whole slot of the copy, a stopped copier", adopt))
    elif rooms.queue == "stretched":
        unchecked.append(("replicas of each row in two rooms", "the driver, every five minutes"))
    else:
        standby = "the standby, every 30 s"
        unchecked.append(("a resume position of each source partition", standby))
        unchecked.append(("what makes the copies exact", doctor))
    return {
        "home": rooms.home,
        "names": list(rooms.names),
        "switch": rooms.switch,
        "queue": rooms.queue,
        "storage": rooms.storage,
        "references_read": read,
        "warnings": _one_catalog(spec) if rooms.storage == "copied" else [],
        "not_checked": [{"what": what, "checked_by": by} for what, by in unchecked],
    }


def _one_catalog(spec: "JobSpec") -> list[str]:
    """Warnings for copies of tables in one catalog, where a table lies at one location."""
    used = {route.table.target.connection for route in spec.routes}
    shared = ", ".join(f"`{name}`" for name in sorted(used & spec.routes[0].shared_connections))
    todo = "give each room a metastore or folder of its own in its `connections`"
    return [f"rooms share the catalog {shared}, which has one copy: {todo}"] if shared else []


def _room_lines(rooms: dict[str, Any]) -> Iterator[tuple[str, str]]:
    others = ", ".join(name for name in rooms["names"] if name != rooms["home"])
    queue = {
        "stretched": "one cluster spans them",
        "linked": "the other room has copies of the topics, with their offsets",
        "mirrored": "the other room has copies of the topics, with other offsets",
    }[rooms["queue"]]
    table, how = "one table spans them", "a standby takes over when an operator confirms it"
    if rooms["switch"] == "auto":
        how = "a standby takes over by itself"
    if rooms["storage"] == "copied":
        table = "each has a copy of the table"
        how = "another room continues by `sluiceway adopt JOB`"
    yield "rooms", f"home {rooms['home']}, {others}: {queue}, {table}; {how}"
    unread = ", ".join(name for name in rooms["names"] if name not in rooms["references_read"])
    if unread:
        yield "not read", f"references of room {unread}: `sluiceway validate JOB --room all`"
    for text in rooms["warnings"]:
        yield "warning", text
    for each in rooms["not_checked"]:
        yield "not checked", f"{each['what']}: {each['checked_by']}"


def null_warnings(route: "RouteSpec") -> list[str]:
    """Warnings for conditions and expressions of a route that compare with null."""
    from sluiceway.expressions.null_comparisons import comparisons_with_null  # noqa: PLC0415

    texts = {} if route.where is None else {"where": route.where}
    for column in route.columns or ():
        if column.expression is not None:
            texts[f"column {column.name}"] = column.expression
    return [
        f"{place}: {found}"
        for place, text in texts.items()
        for found in comparisons_with_null(text)
    ]


def _line(name: str, text: str) -> str:
    return f"{name:<12}{text}"


def _lineage(told: "LineageSpec") -> str:
    how = f"every {duration_text(told.interval_ms)}"
    if told.http is not None:
        return f"sent to {url_host(revealed(told.http.url))}, {how}"
    return f"a line in {told.file.path}, {how}" if told.file is not None else how


def _pace(route: "RouteSpec") -> str:
    lake = route.table.iceberg
    return "" if lake is None else f", a snapshot every {duration_text(lake.publish_interval_ms)}"


def _files(hive: "HiveTable | None") -> str:
    if hive is None:
        return "Iceberg, parquet"
    if hive.file_format is None and hive.create == "never":
        return "in its own format"
    file_format = hive.file_format or PARQUET
    return f"{file_format} {hive.compression or COMPRESSIONS[file_format][0]}"


def _columns(route: "RouteSpec") -> str:
    table = route.table
    meta = ", ".join(column.name for column in table.meta)
    suffix = f"; {meta}" if meta else ""
    if table.evolution != "fail":
        suffix += f"; evolution: {table.evolution}"
    subject = subject_summary(route)
    if subject is not None:
        version = "at each start" if subject["version"] is None else f"version {subject['version']}"
        told = f"from the registry's subject {subject['name']}, {version}"
        return f"{told}{_changes(table.changes)}{suffix}"
    if route.transform is not None:
        names = ", ".join(column.name for column in route.columns or ())
        origin = f" over {len(route.columns)}: {names}" if route.columns else ""
        return f"from the SQL{origin}{suffix}"
    if table.columns is None:
        return f"from the table{suffix}"
    names = ", ".join(column.name for column in table.columns)
    return f"{len(table.columns)}: {names}{suffix}"


def _changes(changes: "SubjectColumns") -> str:
    """Differences from the subject's fields, in words; empty when there are none."""
    told = {
        "without": changes.left_out,
        "changed": changes.override,
        "added": [column.name for column in changes.add],
    }
    return "".join(f"; {word} {', '.join(names)}" for word, names in told.items() if names)


def subject_summary(route: "RouteSpec") -> dict[str, Any] | None:
    """The registry's subject that gives the columns; None without one."""
    subject = route.table.subject
    if subject is None:
        return None
    name = subject.name or f"{route.source.names[0]}-value"
    return {"name": name, "version": subject.version, "message": subject.message}


def _partitions(route: "RouteSpec") -> str:
    parts = route.table.partition_by
    path = "/".join(f"{part.name}={_value(part)}" for part in parts) or "none"
    time = route.event_time
    if time is None or not any(part.event_time for part in parts):
        return path
    return f"{path} of {time.field} ({_time_kind(route)}, {time.timezone})"


def _value(part: "PartitionSpec") -> str:
    if part.constant is not None:
        return part.constant
    if part.processing_time is not None:
        return f"{part.processing_time} of the clock"
    if part.record_time is not None:
        return f"{part.record_time} of the record's time"
    if part.partitioner is not None and part.partitioner.plugin is not None:
        return f"<by {part.partitioner.plugin[0]}>"
    return part.event_time or f"<{part.column}>"


def _time_kind(route: "RouteSpec") -> str:
    time = route.event_time
    if time is None or time.is_own:
        return "the queue's" if time and time.field == "$record_time" else "the clock"
    columns = route.columns or ()
    declared = {column.name: column.type for column in columns}.get(time.field, "")
    if declared.lower().startswith("timestamp"):
        return "timestamp"
    known = time.unit or time.format
    return known or ("iso8601" if route.columns else "as the table has it")


def _late(route: "RouteSpec") -> str | None:
    time, ready = route.event_time, route.ready
    if time is None:
        return None
    window = time.archive_window_ms
    if window is None and (time.asks_for_late or ready is not None):
        window = DEFAULT_ARCHIVE_WINDOW_MS
    bounds = ["their partition is closed"] if ready is not None else []
    if isinstance(window, int):
        bounds.append(f"they are more than {duration_text(window)} behind newer ones")
    if not bounds or (window == UNLIMITED and ready is None):
        return None
    seen = late_table_summary(route)
    shown = "" if seen is None else f"; those aside are seen in {seen}, made if missing"
    return f"{_LATE_WORDS[time.late or 'side']}, when {' or '.join(bounds)}{shown}"


def late_table_summary(route: "RouteSpec") -> str | None:
    """The table over late rows, as far as the job file names it; None without one."""
    time, hive = route.event_time, route.table.target
    if time is None or time.late_table is None:
        return None
    # The name is not known yet for routes that a pattern makes.
    return late_table_name(time.late_table, TABLE_IN_NAME if hive.is_template else hive.table)


def _announced(route: "RouteSpec") -> str | None:
    ready = route.ready
    if ready is None:
        return None
    of_units, is_lake = route.source.mode == "recompute", route.table.iceberg is not None
    told = {
        "in the metastore": ready.visible == "on_ready" and not of_units,
        "_SUCCESS": ready.success_file,
        "table property": ready.table_property and (is_lake or not of_units),
        "webhook": ready.webhook is not None,
        f"topic {ready.kafka.topic if ready.kafka else ''}": ready.kafka is not None,
    }
    ways = ", ".join(name for name, is_on in told.items() if is_on)
    if of_units:
        return f"each unit, when it is computed: {ways or 'in the ledger only'}"
    lateness = f"{duration_text(ready.lateness_ms)} after" if ready.lateness_ms else "at"
    earliest = f"{lateness} its end at the earliest"
    whole = f"when complete, {earliest}"
    if (counts := ready.counts) is not None:
        by_count = f"when as many rows are there as the topic {counts.topic} says"
        whole = (
            f"{by_count}, {earliest}" if counts.complete_by == "watermark_and_count" else by_count
        )
        if counts.since_us is not None:
            whole += f" (times from {moment(counts.since_us)} on)"
    return f"{whole}: {ways or 'in the ledger only'}"


def _retention(route: "RouteSpec") -> str | None:
    kept = route.retention
    if kept is None:
        return None
    files = "removed" if kept.drop else "left to their owner"
    return f"partitions go {duration_text(kept.partitions_ms)} after their end, files are {files}"


def _dirty_rows(route: "RouteSpec") -> str | None:
    """Where dirty rows go too, and how long they are kept; None for the defaults."""
    store, kept_ms = route.dirty.store, route.dirty.retention_ms
    words = []
    if store is not None and store.topic is not None:
        words.append(f"to the topic {store.topic} too")
    if store is not None and store.table is not None:
        words.append(f"to the table {store.table} too, made if missing")
    if kept_ms is not None:
        words.append(f"purged {duration_text(kept_ms)} after their commit")
    return ", ".join(words) or None
