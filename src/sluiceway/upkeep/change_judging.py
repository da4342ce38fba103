"""What judges the changes of a replay: nothing, where rows are appended."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from sluiceway.errors import InvariantError
from sluiceway.ledger.log import LedgerLog
from sluiceway.sinks.change_judge import ChangeJudge
from sluiceway.sinks.files.field_ids import FIELD_IDS
from sluiceway.worker.plan import RoutePlan


@contextmanager
def judging(route: RoutePlan, ledger: LedgerLog) -> Iterator[ChangeJudge | None]:
    """What knows the later changes, for one epoch of a lane; None for a table without a key.

    Args:
        route: As its tasks have it.
        ledger: Its own, as long as it is when rows are judged.
    """
    if route.key is None:
        yield None
        return
    # Clients of lake catalogs take a second to import, and most routes need none.
    from sluiceway.sinks.iceberg.keyed.change_history import ChangeHistory  # noqa: PLC0415
    from sluiceway.sinks.iceberg.keyed.keyed_changes import ChangeColumns  # noqa: PLC0415

    ids = {name.lower(): number for name, number in json.loads(_ids(route)).items()}
    named = {each.part: each.column for each in route.meta}
    offset, partition, topic = named["offset"], named["partition"], named.get("topic")
    columns = ChangeColumns(
        tuple(ids[name.lower()] for name in route.key.columns),
        ids[offset.lower()],
        ids[partition.lower()],
        None if topic is None else ids[topic.lower()],
    )
    history = ChangeHistory(ledger, route.key.columns, columns, (offset, partition, topic))
    try:
        yield history
    finally:
        history.close()


def _ids(route: RoutePlan) -> str:
    told = route.files.setting(FIELD_IDS)
    if told is None:
        raise InvariantError("changes of keyed rows are in files whose columns have no ids")
    return told
