"""Rows of a slot, found in the files of now: the same rows whatever compaction did since."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.partition_records import ExpiredPartition, ExpireRecord, ReplaceRecord
from sluiceway.ledger.records import Body, Record
from sluiceway.ledger.row_places import FileSpan, RowBook, joined
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import data

NAMES = ("dt=1/hr=1", "dt=1/hr=2")
_ROWS = st.dictionaries(st.sampled_from(NAMES), st.lists(st.integers(0, 5), max_size=3))
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), _ROWS),
        st.tuples(st.just("merge"), st.sampled_from(NAMES), st.integers(1, 7)),
        st.tuples(st.just("drop"), st.sampled_from(NAMES)),
    ),
    max_size=14,
)


@dataclass
class _Table:
    """A table whose files really hold rows: their numbers."""

    slots: list[Record] = field(default_factory=list)
    content: dict[str, list[int]] = field(default_factory=dict)
    live: dict[str, list[str]] = field(default_factory=dict)
    at: dict[str, str] = field(default_factory=dict)
    written: int = 0
    named: int = 0
    arrived: list[tuple[int, str, int]] = field(default_factory=list)

    def put(self, body: Body) -> None:
        seq = len(self.slots)
        self.slots.append(Record("test", seq, 1, "", "", seq, seq, body))

    def file(self, folder: str, rows: Sequence[int]) -> FileRecord:
        self.named += 1
        name = f"{folder}/f{self.named}.parquet"
        self.content[name] = list(rows)
        return FileRecord("s/f", name, ("1",), BigInt(len(rows)), BigInt(1), "0", {})

    def step(self, kind: str, *asked: object) -> None:
        if kind == "rows":
            self._rows(asked[0])  # type: ignore[arg-type]
        elif kind == "merge" and self.live.get(str(asked[0])):
            self._merge(str(asked[0]), int(str(asked[1])))
        elif kind == "drop" and self.live.get(str(asked[0])):
            self._drop(str(asked[0]))

    def _rows(self, asked: dict[str, list[int]]) -> None:
        files = []
        for name, sizes in asked.items():
            for size in sizes:
                rows = range(self.written, self.written + size)
                self.written += size
                files.append(self.file(self.at.get(name, name), rows))
                self.live.setdefault(name, []).append(files[-1].final)
                self.arrived += [(len(self.slots), name, row) for row in rows]
        self.put(replace(data(1, len(self.slots)), files=tuple(files)))

    def _merge(self, name: str, size: int) -> None:
        rows = [row for file in self.live[name] for row in self.content.pop(file)]
        folder = f"moved{len(self.slots)}/{name}"
        parts = [rows[start : start + size] for start in range(0, len(rows), size)]
        added = tuple(self.file(folder, part) for part in parts)
        self.put(ReplaceRecord(0, name, 1, folder, (), added))
        self.live[name], self.at[name] = [file.final for file in added], folder

    def _drop(self, name: str) -> None:
        folder = f"next{len(self.slots)}/{name}"
        self.put(ExpireRecord("old", (ExpiredPartition(name, BigInt(0), BigInt(0), folder),)))
        self.at[name], self.live[name] = folder, []
        self.arrived = [each for each in self.arrived if each[1] != name]

    def read(self, spans: Sequence[FileSpan]) -> list[int]:
        return [
            row
            for span in spans
            for row in self.content[span.file.final][span.first_row : span.first_row + span.rows]
        ]


def _grown(steps: list[tuple[object, ...]]) -> tuple[_Table, RowBook]:
    table, book = _Table(), RowBook(every_slot=True)
    for kind, *asked in steps:
        table.step(str(kind), *asked)
    for record in table.slots:
        book.apply(record)
    return table, book


@given(_STEPS, st.integers(-1, 14), st.integers(-1, 14))
def test_rows_between_two_slots_are_the_same_after_any_compaction(
    steps: list[tuple[object, ...]], one: int, other: int
) -> None:
    table, book = _grown(steps)
    after, through = sorted((one, other))
    found = [
        each
        for each in book.arrivals(after, through)
        if book.let_go(each.partition, each.life) is None
    ]
    spans = book.spans(found)
    wanted = [row for slot, _, row in table.arrived if after < slot <= through]
    assert table.read(spans) == wanted
    assert table.read(joined(spans)) == wanted
    assert table.read(joined(spans, by_slot=True)) == wanted
    # A row's number is its place in the log.
    places = [span.place + at for span in spans for at in range(span.rows)]
    assert places == wanted


@given(_STEPS, st.integers(0, 13))
def test_rows_of_a_partition_up_to_a_slot_are_its_first_rows(
    steps: list[tuple[object, ...]], slot: int
) -> None:
    table, book = _grown(steps)
    then = RowBook()
    for record in table.slots[: slot + 1]:
        then.apply(record)
    assert book.counts_at(then.slot) == then.counts()
    for name, count in then.counts().items():
        if book.let_go(name, count.life) is None:
            wanted = [row for at, each, row in table.arrived if each == name and at <= slot]
            assert table.read(book.first_rows(name, count.rows, slot)) == wanted


@given(_STEPS, st.integers(-1, 14))
def test_a_book_that_counts_old_slots_only_says_the_same_of_later_ones(
    steps: list[tuple[object, ...]], after: int
) -> None:
    table, book = _grown(steps)
    short = RowBook(after)
    for record in table.slots:
        short.apply(record)
    book.forget_up_to(after)
    last = len(table.slots)
    assert short.arrivals(after, last) == book.arrivals(after, last)
