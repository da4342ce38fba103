"""The garbage rule against the fold: what goes can never be named any more, and stays so."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from sluiceway.errors import InvariantError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.garbage import Decided, EpochFiles, decide
from sluiceway.ledger.records import Body, DataRecord, encode_record
from tools.ledger_records import data, fence, record, sources, span

# What happens to a ledger: a fence, or DATA of an epoch so many above the term's last.
_HISTORY = st.lists(st.one_of(st.just("fence"), st.integers(1, 3)), min_size=1, max_size=12)
_EPOCH = st.tuples(st.integers(1, 6), st.integers(0, 12))


def _name(epoch: tuple[int, int], number: int = 0) -> str:
    return f"{epoch[0]}-{epoch[1]}-{UUID(int=number).hex}"


def _grow(fold: Fold, history: list[str | int]) -> dict[tuple[int, int], EpochFiles]:
    """Apply a history; the DATA records in it by (term, epoch)."""
    named = {}
    for step in history:
        bodies: list[Body]
        if step == "fence" or fold.term == 0:
            bodies = [fence()] if fold.sources else [fence(), sources(0)]
        else:
            epoch = fold.last_epoch + int(step)
            end = fold.sources["orders", 0].end
            bodies = [data(fold.term, epoch, span(0, end, end + 2), dirty=1)]
        for body in bodies:
            made = record(fold, body)
            fold.apply(made, encode_record(made))
            if isinstance(body, DataRecord):
                files = (*body.files, *body.dirty_files, *body.late_files)
                named[fold.term, body.epoch] = EpochFiles(made.seq, files)
    return named


def _can_land(fold: Fold, epoch: tuple[int, int]) -> bool:
    end = fold.sources["orders", 0].end
    made = record(fold, data(*epoch, span(0, end, end + 1)), term=epoch[0])
    try:
        fold.check(made)
    except InvariantError:
        return False
    return True


@given(_HISTORY, st.lists(_EPOCH, min_size=1, max_size=6))
def test_attempt_folder_goes_exactly_when_no_record_can_name_it_any_more(
    history: list[str | int], epochs: list[tuple[int, int]]
) -> None:
    fold = Fold()
    named = _grow(fold, history)
    decisions = decide(Decided.of(fold), map(_name, epochs), named, frozenset())
    for epoch, decision in zip(epochs, decisions, strict=True):
        if decision.removable:
            assert not _can_land(fold, epoch)
        elif epoch[0] == fold.term:
            assert _can_land(fold, epoch)
        else:
            # A driver of a later term, whose fence this reader has not seen.
            assert epoch[0] > fold.term


@given(_HISTORY, _HISTORY, st.lists(_EPOCH, min_size=1, max_size=6))
def test_what_may_go_may_go_for_ever(
    history: list[str | int], later: list[str | int], epochs: list[tuple[int, int]]
) -> None:
    fold = Fold()
    named = _grow(fold, history)
    names = [
        *map(_name, epochs),
        *(f"results/{term}-{epoch}" for term, epoch in epochs),
        *(f"probe-{term}-{UUID(int=1).hex}" for term, _ in epochs),
        *(f"{slot:020d}.json.{UUID(int=1).hex}.tmp" for _, slot in epochs),
    ]
    before = decide(Decided.of(fold), names, named, frozenset())
    named |= _grow(fold, later)
    after = decide(Decided.of(fold), names, named, frozenset())
    gone = {decision.name for decision in before if decision.removable}
    assert gone <= {decision.name for decision in after if decision.removable}


@given(_HISTORY, st.data())
def test_named_folder_goes_only_when_each_of_its_files_is_at_its_final_name(
    history: list[str | int], draws: st.DataObject
) -> None:
    fold = Fold()
    named = _grow(fold, history)
    finals = sorted(file.final for each in named.values() for file in each.files)
    present = draws.draw(st.sets(st.sampled_from(finals)) if finals else st.just(set[str]()))
    folders = {
        file.staged.partition("/")[0]: each.files for each in named.values() for file in each.files
    }
    # Another attempt at the same epochs: decided, and named by no record.
    others = {_name(epoch, number) for number, epoch in enumerate(named)}
    decisions = decide(Decided.of(fold), [*folders, *others], named, present)
    for decision in decisions:
        files = folders.get(decision.name, ())
        assert decision.removable == all(file.final in present for file in files)
        if files:
            assert any(f"slot {each.seq} " in decision.reason for each in named.values())


@given(st.text(max_size=80))
def test_name_that_is_not_made_here_is_never_removed(text: str) -> None:
    everything = Decided(next_seq=10**9, term=10**9, fence_seq=1, last_epoch=10**9, data_seq=2)
    (decision,) = decide(everything, [text], {}, frozenset())
    assert not decision.removable


@given(_EPOCH, st.sampled_from([" {}", "{} ", "{}.old", "x{}", "{}/", "../{}", "-{}", "{}\n"]))
def test_name_that_only_resembles_one_is_never_removed(
    epoch: tuple[int, int], pattern: str
) -> None:
    everything = Decided(next_seq=10**9, term=10**9, fence_seq=1, last_epoch=10**9, data_seq=2)
    (right, wrong) = decide(
        everything, [_name(epoch), pattern.format(_name(epoch))], {}, frozenset()
    )
    assert (right.removable, wrong.removable) == (True, False)
