"""`verify` on a table on disk: each file that a record names, and each that none names."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.audit.verify import Verifier, VerifyReport
from sluiceway.cli.commands.verify import _print
from sluiceway.ledger.records import DataRecord
from sluiceway.storage.contract import FileStatus
from sluiceway.storage.copying import stream_crc32c
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import data, span
from tools.table_on_disk import TableOnDisk, table_on_disk

ROWS = 3
FOLDER = "dt=20261120/hr=08"


class Busy(LocalStorage):
    """Something is committed while the table's folders are listed for the first time."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile: Callable[[], object] | None = meanwhile

    def list(self, folder: str) -> list[FileStatus]:
        if self._meanwhile is not None:
            meanwhile = self._meanwhile
            self._meanwhile = None
            meanwhile()
        return super().list(folder)


class Filled:
    """A table with epochs of real files."""

    def __init__(self, root: Path) -> None:
        self.table: TableOnDisk = table_on_disk(root)
        self.root = Path(self.table.log.layout.table_root)
        self.finals: list[Path] = []

    def commit(self, *, published: bool = True) -> DataRecord:
        """An epoch of three rows, at its final name or still staged."""
        fold = self.table.writer.fold
        start = fold.sources["orders", 0].end
        body = data(fold.term, fold.last_epoch + 1, span(0, start, start + ROWS))
        (file,) = body.files
        layout = self.table.log.layout
        place = Path(layout.final(file.final) if published else layout.attempt(file.staged))
        size, crc32c = _write(place, ROWS)
        file = replace(file, size_bytes=BigInt(size), crc32c=crc32c)
        body = replace(body, files=(file,))
        self.table.writer.commit(body)
        self.finals.append(Path(layout.final(file.final)))
        return body

    def verify(self, storage: LocalStorage | None = None, *, deep: bool = False) -> VerifyReport:
        verifier = Verifier(
            storage or LocalStorage(), self.table.log.layout, deep=deep, columns=("dt", "hr")
        )
        verifier.check_table()
        return verifier.report


def _write(path: Path, rows: int) -> tuple[int, str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"ts": list(range(rows))}), path)
    with path.open("rb") as stream:
        return path.stat().st_size, stream_crc32c(stream)


@pytest.fixture
def filled(tmp_path: Path) -> Filled:
    made = Filled(tmp_path)
    for _ in range(2):
        made.commit()
    return made


def test_table_that_is_as_its_ledger_says_is_verified_with_its_counts(filled: Filled) -> None:
    filled.commit(published=False)
    report = filled.verify(deep=True)
    assert report.problems == []
    assert (report.records, report.files, report.rows, report.offsets) == (5, 3, 9, 9)
    assert (report.partitions, report.foreign) == (1, [])


def test_committed_file_that_is_gone_is_missed(filled: Filled) -> None:
    filled.finals[0].unlink()
    (problem,) = filled.verify().problems
    assert (problem.kind, problem.where) == ("file_missing", str(filled.finals[0]))
    assert "3 rows" in problem.message


def test_file_of_another_size_or_other_rows_is_not_the_one_that_was_committed(
    filled: Filled,
) -> None:
    _write(filled.finals[0], ROWS + 500)
    filled.finals[1].write_bytes(b"x" * filled.finals[1].stat().st_size)
    kinds = {(each.kind, each.where) for each in filled.verify().problems}
    assert kinds == {("file_changed", str(final)) for final in filled.finals}


def test_file_with_other_bytes_is_found_by_its_checksum(filled: Filled) -> None:
    raw = filled.finals[0].read_bytes()
    assert b"parquet-cpp" in raw
    filled.finals[0].write_bytes(raw.replace(b"parquet-cpp", b"parquet-cpq"))
    assert filled.verify().verified
    assert [each.kind for each in filled.verify(deep=True).problems] == ["file_changed"]


@pytest.mark.parametrize(
    "name",
    [
        f"{FOLDER}/orders-1-9-0-{'a' * 32}.parquet",
        "_sluiceway/orders/dirty/copy.parquet",
        f"_sluiceway/orders/late/{FOLDER}/copy.parquet",
        "_sluiceway/orders/log/00000000/notes.txt",
        "_sluiceway/OWNER.bak",
    ],
)
def test_file_that_no_record_names_where_only_the_route_writes_is_a_problem(
    filled: Filled, name: str
) -> None:
    stray = filled.root / name
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.touch()
    (problem,) = filled.verify().problems
    assert (problem.kind, problem.where) == ("file_unknown", str(stray))


def test_file_that_is_somebody_elses_is_listed_and_not_judged(filled: Filled) -> None:
    for name in (f"{FOLDER}/theirs.parquet", "dt=20261121/_SUCCESS"):
        (filled.root / name).parent.mkdir(parents=True, exist_ok=True)
        (filled.root / name).touch()
    # That a partition is complete is said by the route itself.
    (filled.root / FOLDER / "_SUCCESS").touch()
    report = filled.verify()
    assert report.verified
    assert report.foreign == [
        str(filled.root / FOLDER / "theirs.parquet"),
        str(filled.root / "dt=20261121/_SUCCESS"),
    ]


def test_epoch_that_is_committed_while_the_table_is_listed_is_no_problem(filled: Filled) -> None:
    report = filled.verify(Busy(filled.commit))
    assert (report.problems, report.files) == ([], 3)


def test_record_that_is_damaged_or_gone_breaks_the_chain(filled: Filled) -> None:
    record = Path(filled.table.log.layout.record(3))
    record.write_bytes(record.read_bytes()[:-2])
    assert "chain" in {each.kind for each in filled.verify().problems}
    Path(filled.table.log.layout.record(2)).unlink()
    assert "chain" in {each.kind for each in filled.verify().problems}


def test_folder_without_a_ledger_is_a_problem(filled: Filled) -> None:
    for seq in range(4):
        Path(filled.table.log.layout.record(seq)).unlink()
    problems = filled.verify().problems
    assert ("chain", "there is no ledger") in {(each.kind, each.message) for each in problems}


def test_hour_that_is_not_announced_yet_is_not_counted_as_in_the_catalog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_on_disk(tmp_path)
    table.rows(FOLDER, "dt=20261120/hr=09")
    verifier = Verifier(LocalStorage(), table.log.layout, columns=("dt", "hr"))
    verifier.check_table()
    shown: dict[tuple[str, ...], str] = {("20261120", "08"): table.log.layout.final(FOLDER)}
    verifier.check_partitions(shown, lambda values: tuple(map(str, values)), on_ready=True)
    assert (verifier.report.partitions, verifier.report.unannounced) == (2, 1)
    _print(verifier.report, "orders.yaml")
    assert "partitions             1  in the catalog, 1 not announced yet ok" in (
        capsys.readouterr().out
    )
