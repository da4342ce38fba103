"""A lake table, its ledger, publishers that come and go, and everything that others do meanwhile.

The publisher that ships runs on a catalog between which and it requests are lost, held back,
doubled and reordered. Whatever else happens, happens while a publisher waits for the catalog: at
each of its calls others may append, compact, expire and put back old metadata, another publisher
may publish, and held requests may land. Days pass, and orphans are removed. All of it is drawn from
one seed, in one thread.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table.metadata import TableMetadata

from lake_sim.lending import Lending
from lake_sim.quick_schemas import remember_schemas
from lake_sim.violation import ViolationError
from sluiceway.errors import (
    MetastoreUnavailableError,
    SluicewayError,
    StorageUnavailableError,
    TableHistoryError,
)
from sluiceway.sinks.iceberg.catalog.catalogs import LakeCatalog, said_by
from sluiceway.sinks.iceberg.compact.merge_files import MergedOne, MergePlan, merge_files
from sluiceway.sinks.iceberg.publish import lake_batch, publisher
from sluiceway.sinks.iceberg.table_history import Lineage, lineage, property_name, read_through
from sluiceway.storage.local import LocalStorage
from tools.lake_under_test import BY_APP, NAME, FaultyCatalog, LakeUnderTest, PublisherUnderTest
from tools.ledger_records import LEDGER

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluiceway.sinks.iceberg.commit_request import CommitRequest

STEPS = 14
_MEANWHILE = 0.3
_FOREIGN_FIRST = 1_000_000
_LAST_TRIES = 60
_WELL_ENOUGH = 2
_BATCH_SLOTS = (1_000, 1, 2)
_CLIENTS = (4, 2, 4, 1)
_ORPHAN_AGE_S = 3 * 86_400.0
Actions = tuple[tuple[float, Callable[[], None]], ...]


def merge_here(plan: MergePlan) -> tuple[MergedOne | None, ...]:
    """Merging in this process: another one costs a second, and has no part in what is tested."""
    return merge_files(plan, LocalStorage())


class World:
    """Everything of one seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self.lake = self.new_lake(folder)
        self.seen: Counter[str] = Counter()
        self.trace: list[str] = []
        self.held: list[tuple[Table, CommitRequest]] = []
        self.lending = Lending(self, _CLIENTS[seed % len(_CLIENTS)])
        self._publishers: list[tuple[PublisherUnderTest, LakeCatalog]] = []
        self._forward = self._aimed = 0
        self._slots: dict[int, int] = {}
        self._foreign: list[int] = []
        self._deleted: set[int] = set()
        self._compacting = False
        self._tags = 0
        self._next_foreign = _FOREIGN_FIRST
        self._busy = False
        self._active: PublisherUnderTest | None = None
        self._next_row = 0
        self._expired = False
        self._rolled_back = False
        # Rollbacks that their owner has ended: a call that began before may still see one.
        self._ended = 0
        self._read_at: tuple[str, set[str]] = ("", set())
        self._read: tuple[int, list[Any]] = (-1, [])
        self._actions = self.actions()

    def actions(self) -> Actions:
        """What may happen, each with its weight."""
        return (
            (3, self._commit),
            (3, self._publish),
            (1, self._new_driver),
            (0.4, self._all_leave),
            (1, self._land),
            (1, self._append_foreign),
            (1, self._compact_foreign),
            (1.5, self._compact_ours),
            (1, self._expire_ours),
            (1, self._delete_foreign),
            (0.6, self._expire),
            (0.6, self._tag_foreign),
            (0.4, self._leave_orphans),
            (0.6, self._days_pass),
            (1.2, self._remove_orphans),
            (0.4, self._put_back_older),
            (0.4, self._roll_back),
            (0.6, self._come_back),
        )

    def new_lake(self, folder: Path) -> LakeUnderTest:
        """The table and its ledger."""
        return LakeUnderTest(folder, BY_APP)

    def live(self) -> None:
        """The whole history.

        Raises:
            ViolationError: A promise was broken; the trace tells how.
        """
        self._new_driver()
        for _ in range(STEPS):
            self._act(self._actions)
        self._end()

    def meanwhile(self) -> None:
        """What happens while a publisher waits; a publisher inside of that is left alone."""
        if self._busy or self.rng.random() > _MEANWHILE:
            return
        self._busy = True
        try:
            self._act(self._actions)
        finally:
            self._busy = False

    def check(self) -> None:
        """What a reader finds now: each slot of the property once and whole, nothing else."""
        self.lending.judge()
        last, rows = self._as_read()
        found = Counter(rows)
        ours = Counter(
            row for row, slot in self._slots.items() if slot <= last and row not in self._deleted
        )
        theirs = Counter({row: found[row] for row in self._foreign if row in found})
        if self._rolled_back:
            # The owner has taken rows away; nobody may put more of them there than there were.
            if any(count > 1 for count in found.values()):
                raise ViolationError(f"rows twice after a rollback: {_twice(found)}")
            return
        if found - theirs != ours:
            extra, gone = found - theirs - ours, ours - found
            raise ViolationError(
                f"at slot {last} a reader finds {dict(extra)} too much, {dict(gone)} too little"
            )
        lost = [row for row in self._foreign if found[row] != 1]
        if lost:
            raise ViolationError(f"rows of others are not there once: {lost}")

    def _rows(self) -> list[Any]:
        """What a reader finds, in order."""
        return [*self.lake.rows()]

    def _as_read(self) -> tuple[int, list[Any]]:
        """The last slot of the property, and the rows that a reader finds, in order.

        What is read follows from the newest metadata and from the files that are there, none of
        which is ever written twice: while both are the same, nothing is read again.
        """
        with self.lake.client.engine.connect() as connection:
            sql = "SELECT metadata_location FROM iceberg_tables WHERE table_name = ?"
            location = connection.exec_driver_sql(sql, (NAME[1],)).scalar_one()
        there = {
            f"{folder}/{name}"
            for folder, _, names in os.walk(self.lake.folder / "wh")
            for name in names
        }
        if (location, there) != self._read_at:
            properties = self.lake.table().metadata.properties
            through = read_through(properties, LEDGER, where="t")
            self._read = (-1 if through is None else through.slot, self._rows())
            self._read_at = location, there
        return self._read

    # Actions

    def _act(self, actions: Actions) -> None:
        weights = [weight for weight, _ in actions]
        ((_, act),) = self.rng.choices(actions, weights)
        self.trace.append(act.__name__)
        self.seen[act.__name__.strip("_")] += 1
        act()
        self.check()

    def _commit(self) -> None:
        count = self.rng.choice((0, 1, 1, 2))
        rows = range(self._next_row, self._next_row + count)
        self._next_row += count
        slot = self.lake.commit(*rows, app=self.rng.choice("ab"))
        self._slots |= dict.fromkeys(rows, slot)

    def _publish(self) -> None:
        free = [each for each, _ in self._publishers if each is not self._active]
        if not free:
            return
        chosen = self.rng.choice(free)
        before, self._active = self._active, chosen
        ended = self._ended
        try:
            chosen.publish()
        except TableHistoryError as error:
            self.seen["halts"] += 1
            if not self._rolled_back and self._ended == ended:
                raise ViolationError(f"halted, and nobody rolled back: {error}") from error
        except (MetastoreUnavailableError, StorageUnavailableError):
            self.seen["waits"] += 1
        finally:
            self._active = before

    def _new_driver(self) -> None:
        """A driver more; the oldest may be gone, or be a zombie that publishes still."""
        busy, self._busy = self._busy, True
        try:
            with self._borrowing(), ExitStack() as failed:
                catalog = self.lending.open()
                failed.callback(catalog.close)
                self._publishers.append((self.lake.publisher(catalog), catalog))
                failed.pop_all()
        finally:
            self._busy = busy
        if len(self._publishers) > 2 and self.rng.random() < 0.5:
            _, catalog = self._publishers.pop(0)
            catalog.close()

    def _all_leave(self) -> None:
        """All routes of the process are left, maybe in the midst of a call, and one comes back."""
        self._leave()
        self._new_driver()

    def _leave(self) -> None:
        gone, self._publishers = self._publishers, []
        for _, catalog in gone:
            catalog.close()

    @contextmanager
    def _borrowing(self) -> Iterator[None]:
        """All clients may be on loan, or the answer come late: it is tried again later."""
        try:
            yield
        except (MetastoreUnavailableError, StorageUnavailableError):
            self.seen["no_client"] += 1

    def _land(self) -> None:
        """Any of the held requests reaches the catalog, perhaps once more later."""
        if not self.held:
            return
        index = self.rng.randrange(len(self.held))
        table, request = self.held[index]
        if self.rng.random() < 0.7:
            self.held.pop(index)
        commit = partial(
            self.lake.client.commit_table, table, request.requirements, request.updates
        )
        self.seen["landed_late" if said_by(commit) == "" else "refused_late"] += 1

    def _append_foreign(self) -> None:
        if self._rolled_back:
            # The owner would take it away again by going forward.
            return
        self._next_foreign += 1
        row = self._next_foreign
        with suppress(CommitFailedException):
            self.lake.append_foreign([row])
            self._foreign.append(row)

    def _compact_foreign(self) -> None:
        """All files in one, by a request of somebody else."""
        table = self.lake.table()
        files = [task.file for task in table.scan().plan_files()]
        if not files or self._rolled_back:
            return
        with suppress(CommitFailedException):
            table.overwrite(table.scan().to_arrow())

    def _compact_ours(self) -> None:
        """Small files come, are written anew, and are put into the table some time later."""
        if self._compacting:
            return
        for _ in range(2):
            self._commit()
            self._publish()
        with self._borrowing(), closing(self.lending.open()) as catalog:
            compaction = self.lake.compaction(catalog=catalog)
            self._compacting = True
            with self._quiet_errors():
                compaction.begin(compaction.plan(all_of_them=True)[0])
            for _ in range(self.rng.choice((0, 1, 1, 2, 4))):
                self._act(self._actions)
            with self._quiet_errors():
                done = compaction.finish()
                good = sum(not each.left for each in done)
                self.seen["compacted"] += good
                self.seen["compaction_left"] += len(done) - good
        self._compacting = False

    def _expire_ours(self) -> None:
        """All snapshots go that may, and their files for good."""
        with self._borrowing(), closing(self.lending.open()) as catalog, self._quiet_errors():
            done = self.lake.expiry(catalog).expire(0.0)
            self.seen["expired_ours"] += done.snapshots
            self.seen["files_removed"] += done.data_files

    def _tag_foreign(self) -> None:
        """The owner names the newest snapshot, as tag or as branch, for ever."""
        head = self.lake.table().metadata.current_snapshot_id
        if head is None or self._rolled_back:
            return
        self._tags += 1
        manage = self.lake.table().manage_snapshots()
        make = self.rng.choice((manage.create_tag, manage.create_branch))
        with suppress(CommitFailedException):
            make(head, f"kept-{self._tags}")
            manage.commit()

    def _leave_orphans(self) -> None:
        """Another writer dies between its files and its request."""
        root = self.lake.folder / "wh" / NAME[0] / NAME[1]
        for inside in ("data/app=a", "metadata"):
            (root / inside).mkdir(parents=True, exist_ok=True)
            (root / inside / f"{self.lake.unique()}.parquet").write_bytes(b"left")

    def _days_pass(self) -> None:
        """Files get old. No call and no request lives so long; a driver may, with all it holds."""
        if self._busy or self._compacting:
            return
        self.held.clear()
        self.lake.days_pass()

    def _remove_orphans(self) -> None:
        with self._borrowing(), closing(self.lending.open()) as catalog, self._quiet_errors():
            done = self.lake.orphans(catalog).remove(_ORPHAN_AGE_S)
            self.seen["orphans_removed"] += done.files
            self.seen["orphans_left"] += bool(done.left)
        self._check_kept()

    def _check_kept(self) -> None:
        """All that a branch or tag leads to can be read."""
        table = self.lake.table()
        for name, ref in table.metadata.refs.items():
            for task in table.scan(snapshot_id=ref.snapshot_id).plan_files():
                for file in (task.file, *task.delete_files):
                    if not Path(file.file_path.removeprefix("file://")).exists():
                        raise ViolationError(f"{name} has lost {file.file_path}")

    @contextmanager
    def _quiet_errors(self) -> Iterator[None]:
        """What a call may end with when the catalog is away, or the owner has rolled back."""
        ended = self._ended
        try:
            yield
        except TableHistoryError as error:
            if not self._rolled_back and self._ended == ended:
                raise ViolationError(f"halted, and nobody rolled back: {error}") from error
        except (MetastoreUnavailableError, StorageUnavailableError):
            self.seen["compaction_waits"] += 1

    def _delete_foreign(self) -> None:
        """Another writer deletes a row of ours by its place."""
        rows = sorted({*self._as_read()[1]} & self._slots.keys())
        if not rows or self._rolled_back:
            return
        row = self.rng.choice(rows)
        if self.lake.delete_foreign(row):
            self._deleted.add(row)

    def _expire(self) -> None:
        """All snapshots go but the newest, and those with a name; parents stay named."""

        def only_head(metadata: TableMetadata) -> TableMetadata:
            head = metadata.current_snapshot_id
            named = {head, *(ref.snapshot_id for ref in metadata.refs.values())}
            kept = [each for each in metadata.snapshots if each.snapshot_id in named]
            log = [each for each in metadata.snapshot_log if each.snapshot_id == head]
            return metadata.model_copy(update={"snapshots": kept, "snapshot_log": log})

        if self._rolled_back:
            return
        self._swap(only_head(self.lake.table().metadata))

    def _put_back_older(self) -> None:
        """A writer without compare-and-swap puts back the metadata before the newest."""
        table = self.lake.table()
        log = table.metadata.metadata_log
        if not log or self._rolled_back:
            return
        older = FromInputFile.table_metadata(table.io.new_input(log[-1].metadata_file))
        if property_name(LEDGER) not in older.properties:
            # As if nothing had ever been published: told from a table that was emptied by nobody.
            return
        held = {each.snapshot_id for each in table.metadata.snapshots}
        lists = (each.manifest_list.removeprefix("file://") for each in older.snapshots)
        if older.current_snapshot_id not in held or not all(map(os.path.exists, lists)):
            # Files are gone with their snapshots: nobody could read it.
            return
        ours = read_through(older.properties, LEDGER, where="t")
        if ours is None or lineage(older, ours) is Lineage.LOST:
            # Of the time of a rollback that its owner has ended: publishing halts, rightly.
            return
        self._point_at(log[-1].metadata_file)
        self._accept()

    def _roll_back(self) -> None:
        """The owner makes an older snapshot current; the property stays."""
        table = self.lake.table()
        head = table.current_snapshot()
        older = [each.snapshot_id for each in table.metadata.snapshots if head and each is not head]
        ours = read_through(table.metadata.properties, LEDGER, where="t")
        if self._rolled_back or not older or ours is None or head is None:
            return
        target = self.rng.choice(older)
        before = self._as_read()[1]
        with suppress(CommitFailedException):
            table.manage_snapshots().set_current_snapshot(target).commit()
            found = self._as_read()[1]
            state = lineage(self.lake.table().metadata, ours)
            if state is Lineage.GOOD:
                # What others did is taken back: publishing goes on, and nobody comes back.
                self._accept()
            elif state is Lineage.LOST or found != before:
                self._rolled_back = True
            self._forward, self._aimed = head.snapshot_id, target

    def _come_back(self) -> None:
        """The owner puts things right, and the catalogs answer again."""
        self.lending.up()
        if not self._rolled_back:
            return
        table = self.lake.table()
        self._rolled_back = False
        self._ended += 1
        if table.metadata.current_snapshot_id == self._aimed:
            table.manage_snapshots().set_current_snapshot(self._forward).commit()
            return
        # Our snapshots are on top of what was taken back: it stays so.
        self._accept()

    def _accept(self) -> None:
        """The owner wants what a reader finds now: others' rows and deletes that are undone."""
        last, rows = self._as_read()
        found = set(rows)
        gone = {row for row, slot in self._slots.items() if slot <= last} - found
        self._deleted = (self._deleted - found) | gone
        # Rows that an earlier rollback has taken may be there again by a later one.
        self._foreign = sorted(row for row in found if row >= _FOREIGN_FIRST)

    def _swap(self, metadata: TableMetadata) -> None:
        table = self.lake.table()
        name = f"{table.metadata_location.rpartition('/')[0]}/x-{self.lake.unique()}.metadata.json"
        ToOutputFile.table_metadata(metadata, table.io.new_output(name))
        self._point_at(name)

    def _point_at(self, location: str) -> None:
        with self.lake.client.engine.begin() as connection:
            sql = "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?"
            connection.exec_driver_sql(sql, (location, NAME[1]))

    # The end

    def _end(self) -> None:
        """The world is well: what is held lands or not, and a last driver publishes all.

        One more starts behind it and has nothing to add. Requests still go astray, so each may
        need some tries.
        """
        self._busy = True
        self._come_back()
        while self.held:
            self._land()
            self.check()
        well = 0
        for _ in range(_LAST_TRIES):
            self._new_driver()
            with suppress(MetastoreUnavailableError, StorageUnavailableError):
                well += bool(self._publishers) and self._publish_all(self._publishers[-1][0])
            self._come_back()
            self.check()
            if well == _WELL_ENOUGH:
                break
        else:
            raise ViolationError(f"not all could be published in {_LAST_TRIES} tries")
        self._judge_end()
        self._leave()
        self.lending.judge_end()

    def _judge_end(self) -> None:
        self._check_orphans()
        found = Counter(self.lake.rows())
        wanted = Counter([*(self._slots.keys() - self._deleted), *self._foreign])
        if found != wanted:
            raise ViolationError(
                f"at the end {dict(found - wanted)} too much, {dict(wanted - found)} too little"
            )

    def _check_orphans(self) -> None:
        """Days later nothing is left in the table's folders that nobody names."""
        if property_name(LEDGER) not in self.lake.table().metadata.properties:
            # No row was ever committed: such a table is left alone.
            return
        self.lake.days_pass()
        catalog = FaultyCatalog(self.lake.client)
        done = self.lake.orphans(catalog).remove(_ORPHAN_AGE_S)
        again = self.lake.orphans(catalog).find(_ORPHAN_AGE_S)
        if done.left or done.failed or again.files:
            raise ViolationError(f"orphans at the end: {done}, then {again}")
        self._check_kept()
        left = self.lake.in_table() - self._named()
        if left:
            raise ViolationError(f"{len(left)} orphans are left: {sorted(left)[0]}")

    def _named(self) -> set[str]:
        """All that the table names, by the library's own tables of them."""
        table, metadata = self.lake.table(), self.lake.table().metadata
        named = {table.metadata_location, *(each.metadata_file for each in metadata.metadata_log)}
        named |= {each.manifest_list for each in metadata.snapshots}
        for snapshot in metadata.snapshots:
            for manifest in snapshot.manifests(table.io):
                named.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
                named |= {entry.data_file.file_path for entry in entries}
        return {each.removeprefix(f"{table.location()}/") for each in named}

    def _publish_all(self, last: PublisherUnderTest) -> bool:
        """Whether the table has everything then."""
        tail = self.lake.writer.fold.next_seq
        return any(last.publish() >= tail for _ in range(tail))


def _twice(found: Counter[int]) -> list[int]:
    return [row for row, count in found.items() if count > 1]


def simulate(
    seed: int, folder: Path, world_of: Callable[[int, Path], World] = World
) -> tuple[str, World]:
    """One seed; the violation, empty when there is none."""
    vars(publisher)["merge_in_process"] = merge_here
    remember_schemas()
    vars(lake_batch)["MOST_SLOTS"] = _BATCH_SLOTS[seed % len(_BATCH_SLOTS)]
    world = world_of(seed, folder)
    try:
        world.live()
    except ViolationError as error:
        return str(error), world
    except (SluicewayError, OSError) as error:
        # Among them: a file of the table that a reader does not find.
        return f"{type(error).__name__}: {error}", world
    finally:
        world.lake.client.close()
    return "", world
