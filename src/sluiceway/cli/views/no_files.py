"""What `files` says where it has none to list: whether there is such a partition at all."""

from typing import TYPE_CHECKING

from sluiceway.errors import WrongUsageError

if TYPE_CHECKING:
    from sluiceway.jobfile.compile.config import RouteConfig


def why_no_files(config: "RouteConfig", name: str, unannounced: int) -> str:
    """A sentence for people.

    Args:
        config: The route.
        name: The partition that was asked for, or a folder above some; empty is the whole table.
        unannounced: Files that are there, and not announced yet.

    Raises:
        WrongUsageError: No partition of the table has such a name.
    """
    from sluiceway.audit.pick_route import table_name  # noqa: PLC0415

    where = f"{table_name(config)} {name}".strip()
    if unannounced:
        files = "1 file" if unannounced == 1 else f"{unannounced:,} files"
        return f"{where}: nothing is announced yet; --unannounced lists {files}"
    hint = "`sluiceway partitions list JOB` shows which there are"
    if not _may_be(config, name):
        raise WrongUsageError(f"no partition of {table_name(config)} is named {name}", hint=hint)
    if not name:
        return f"{where} has no file yet"
    return f"there is no such partition with a file: {where}; {hint}"


def _may_be(config: "RouteConfig", name: str) -> bool:
    """Whether a partition, or a folder above some, may have such a name."""
    if not name or config.hive.lake is not None:
        return True  # Transforms name the folders of a lake table.
    parts, rules = name.split("/"), config.partitions
    if len(parts) > len(rules):
        return False
    if not all(part.startswith(f"{rule.name}=") for part, rule in zip(parts, rules, strict=False)):
        return False
    return _is_time(config, parts)


def _is_time(config: "RouteConfig", parts: list[str]) -> bool:
    from sluiceway.eventtime.prefix_periods import PrefixPeriods  # noqa: PLC0415

    columns = []
    for rule in config.partitions[: len(parts)]:
        if rule.pattern is None:
            break
        columns.append((rule.name, rule.pattern))
    zone = "UTC" if config.event_time is None else config.event_time.timezone
    try:
        periods = PrefixPeriods(columns, zone)
    except ValueError:
        return True
    return periods.of("/".join(parts)) is not None
