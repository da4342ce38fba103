"""Wrong variants of publishing keyed changes: each has to be caught by some seed of its world."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sluiceway.sinks.iceberg.keyed import keyed_changes, keyed_publisher
from sluiceway.sinks.iceberg.keyed.change_history import ChangeHistory
from sluiceway.sinks.iceberg.keyed.key_index import KeyIndex
from sluiceway.sinks.iceberg.keyed.keyed_publisher import KeyedPublisher
from sluiceway.sinks.iceberg.keyed.table_head import HeadReader
from sluiceway.sinks.iceberg.keyed.upsert_request import upsert_request
from sluiceway.types.row_kinds import RowKind

_FIND = KeyIndex.find
_LAST = keyed_changes._last_of_each
_REWRITE = KeyedPublisher._rewrite
_BEHIND = keyed_changes._behind_truncates
_UPSERT = upsert_request
_JUDGE = ChangeHistory.judge
_TRY = KeyedPublisher._try


def found_at_older_head(self: Any, paths: Any, keys: pa.Table) -> Any:
    """Where a batch's keys lie is found once; a head that has moved meanwhile is not looked at."""
    kept = getattr(self, "_kept", None)
    wanted = list(paths)
    if kept is None or kept[0] is not keys:
        self._kept = kept = keys, _FIND(self, wanted, keys)
    return {path: rows for path, rows in kept[1].items() if path in wanted}


def first_of_each(control: pa.Table, key: list[str]) -> Any:
    """The first change of a key in a batch counts."""
    back = control
    for name in (keyed_changes.OFFSET, keyed_changes._SLOT):
        turned = pa.array(-control[name].to_numpy())
        back = back.set_column(back.column_names.index(name), name, turned)
    return _LAST(back, key)


def fresh_not_carried(self: KeyedPublisher, paths: Any, work: Any, added: Any) -> Any:
    """A file that is written anew within a publish keeps the rows that this publish deletes."""
    return _REWRITE(self, paths, replace(work, fresh={}), added)


def older_not_carried(self: KeyedPublisher, paths: Any, work: Any, added: Any) -> Any:
    """A file that is written anew keeps rows that were deleted before."""

    class _Blind(HeadReader):
        def dead(self, path: str) -> Any:
            del path
            return np.empty(0, np.int64)

    blind = _Blind(work.place.read_deletes)
    return _REWRITE(self, paths, replace(work, heads=blind), added)


def full_deletes_lost(table: Any, batch: Any, change: Any, entries: Any) -> Any:
    """Where a partition's delete files become one, only the new rows' deletes are written."""
    if not change.removed:
        return _UPSERT(table, batch, change, entries)
    return _UPSERT(table, batch, replace(change, deletes=()), entries)


def truncate_first(control: pa.Table) -> Any:
    """A truncate empties the table, and then the whole batch is applied."""
    truncates = control[keyed_changes.KIND].to_numpy() == RowKind.TRUNCATE
    if not truncates.any():
        return _BEHIND(control)
    return np.flatnonzero(~truncates)


def truncate_last(control: pa.Table) -> Any:
    """The whole batch is applied, and then a truncate empties the table."""
    truncates = control[keyed_changes.KIND].to_numpy() == RowKind.TRUNCATE
    return np.empty(0, np.int64) if truncates.any() else _BEHIND(control)


def first_truncate(control: pa.Table) -> Any:
    """The first truncate of a batch counts, and not the last."""
    truncates = np.flatnonzero(control[keyed_changes.KIND].to_numpy() == RowKind.TRUNCATE)
    if not len(truncates):
        return _BEHIND(control)
    slots = control[keyed_changes._SLOT].to_numpy()
    offsets = control[keyed_changes.OFFSET].to_numpy()
    slot, offset = min((slots[row], offsets[row]) for row in truncates)
    behind = (slots > slot) | ((slots == slot) & (offsets > offset))
    behind[truncates] = False
    return np.flatnonzero(behind)


def nothing_overtakes(self: ChangeHistory, rows: Any, sources: Any) -> Any:
    """A dirty row that is replayed counts, whatever has come meanwhile."""
    verdict = _JUDGE(self, rows, sources)
    return replace(verdict, superseded=np.zeros(rows.num_rows, np.bool_))


def made_once(self: KeyedPublisher, table: Any, batch: Any, view: Any) -> str:
    """What was made of one batch is taken for the next one of the same first slot."""
    made = self._batch
    if made is not None and made.slots[0] == batch.first:
        self._batch = replace(made, slots=(batch.first, batch.last))
    return _TRY(self, table, batch, view)


KEYED_MUTANTS: dict[str, list[tuple[object, str, object]]] = {
    "key-at-older-head": [(KeyIndex, "find", found_at_older_head)],
    "first-change-counts": [(keyed_changes, "_last_of_each", first_of_each)],
    "fresh-not-carried": [(KeyedPublisher, "_rewrite", fresh_not_carried)],
    "older-not-carried": [(KeyedPublisher, "_rewrite", older_not_carried)],
    "full-deletes-lost": [(keyed_publisher, "upsert_request", full_deletes_lost)],
    "truncate-first": [(keyed_changes, "_behind_truncates", truncate_first)],
    "truncate-last": [(keyed_changes, "_behind_truncates", truncate_last)],
    "first-truncate": [(keyed_changes, "_behind_truncates", first_truncate)],
    "nothing-overtakes": [(ChangeHistory, "judge", nothing_overtakes)],
    "made-once": [(KeyedPublisher, "_try", made_once)],
}
