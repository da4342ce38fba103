"""What under stage/ may go: the garbage rule, as a function of the fold and of a listing.

Only the log decides, never age and never that a slot is taken (docs/contributors/promises.md,
Garbage). What may go once may go for ever, because terms and epochs only rise. So an old answer is
still right when it is used, next to a live driver and next to a fenced one.
"""

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum

from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.places import intent_of
from sluiceway.ledger.records import MovingRecord

Epoch = tuple[int, int]
"""(term, epoch)."""

_ATTEMPT = re.compile(r"(?P<term>[1-9]\d*)-(?P<epoch>\d+)-[0-9a-f]{32}")
_RESULTS = re.compile(r"results/(?P<term>[1-9]\d*)-(?P<epoch>\d+)")
_PROBE = re.compile(r"probe-(?P<term>\d+)-[0-9a-f]{32}")
_SLOT_TMP = re.compile(r"(?P<slot>\d{20})(-[0-9a-f]{32})?\.json\.[0-9a-f]{32}\.tmp")
_PACK = re.compile(r"pack-(?P<folder>\d{16})-[0-9a-f]{32}(\.inprogress)?")


class NameKind(StrEnum):
    """What a name is."""

    ATTEMPT = "attempt"
    INTENT = "intent"
    RESULTS = "results"
    PROBE = "probe"
    SLOT_TMP = "slot_tmp"
    OWNER_TMP = "owner_tmp"
    RESERVE_TMP = "reserve_tmp"
    REQUEST_TMP = "request_tmp"
    ADVICE_TMP = "advice_tmp"
    CLOCK = "clock"
    PACK = "pack"
    UPKEEP = "upkeep"
    UNKNOWN = "unknown"


_PLAIN = {
    NameKind.OWNER_TMP: re.compile(r"OWNER\.[0-9a-f]{32}\.tmp"),
    NameKind.RESERVE_TMP: re.compile(r"\.reserve\.[0-9a-f]{32}\.tmp"),
    NameKind.REQUEST_TMP: re.compile(r"[0-9a-f]{32}\.json\.[0-9a-f]{32}\.tmp"),
    NameKind.ADVICE_TMP: re.compile(
        r"\.\./(\.(lease|status|hint|late-table|told-[a-z-]+)|readers/\.[A-Za-z0-9][A-Za-z0-9._-]*)"
        r"\.json\.[0-9a-f]{32}\.tmp"
    ),
    NameKind.CLOCK: re.compile(r"clock-[0-9a-f]{32}|\.clock-[0-9a-f]{32}\.[0-9a-f]{32}\.tmp"),
    NameKind.UPKEEP: re.compile(r"reserve|snapshots"),
}


@dataclass(frozen=True, slots=True)
class Staged:
    """One name, and what it belongs to.

    Attributes:
        name: Relative to stage/; what lies in the route's folder begins with `../`.
        epoch: Epoch of an attempt or of its results; for a probe, the term that made it, and 0.
        slot: Slot that a temporary file, a snapshot's side file or background work (its INTENT)
            belongs to; -1 for other names.
        folder: Number of the log folder that a staged pack was to hold.
    """

    name: str
    kind: NameKind
    epoch: Epoch = (0, 0)
    slot: int = -1
    folder: int = -1


@dataclass(frozen=True, slots=True)
class Decided:
    """What the log had decided at one moment; a later moment only decides more.

    Attributes:
        term: Term of the latest FENCE, which stands in slot `fence_seq`.
        last_epoch: Epoch of the latest DATA of that term, in slot `data_seq`; -1 without one.
        packed: Numbers of the log folders that have a pack, as far as they matter here.
        published_through: All files of records below this slot have been at their final names.
        intents: Slots of INTENTs whose staged files are still needed.
    """

    next_seq: int
    term: int
    fence_seq: int
    last_epoch: int
    data_seq: int
    packed: frozenset[int] = frozenset()
    published_through: int = 0
    intents: frozenset[int] = frozenset()

    @classmethod
    def of(cls, fold: Fold) -> "Decided":
        """As the fold has it now."""
        moving = (each for each in fold.unpublished.values() if isinstance(each, MovingRecord))
        return cls(
            fold.next_seq,
            fold.term,
            fold.fence_seq,
            fold.last_epoch,
            fold.data_seq,
            published_through=fold.published_through,
            intents=frozenset(fold.intents) | {each.intent for each in moving},
        )

    def why(self, epoch: Epoch) -> str | None:
        """Why no record can name a folder of this epoch any more; None when one still can."""
        term, number = epoch
        if term < self.term:
            return f"slot {self.fence_seq} fences term {self.term}"
        if term == self.term and number <= self.last_epoch:
            return f"slot {self.data_seq} holds epoch {self.last_epoch} of term {term}"
        return None


@dataclass(frozen=True, slots=True)
class EpochFiles:
    """Files that the one DATA record of an epoch names."""

    seq: int
    files: tuple[FileRecord, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a name under stage/ may go, and why."""

    name: str
    removable: bool
    reason: str


def classify(name: str) -> Staged:
    """What a name is. What this version does not make is UNKNOWN, and stays."""
    if found := _ATTEMPT.fullmatch(name):
        return Staged(name, NameKind.ATTEMPT, (int(found["term"]), int(found["epoch"])))
    if (intent := intent_of(name)) is not None:
        return Staged(name, NameKind.INTENT, slot=intent)
    if found := _RESULTS.fullmatch(name):
        return Staged(name, NameKind.RESULTS, (int(found["term"]), int(found["epoch"])))
    if found := _PROBE.fullmatch(name):
        return Staged(name, NameKind.PROBE, (int(found["term"]), 0))
    if found := _SLOT_TMP.fullmatch(name):
        return Staged(name, NameKind.SLOT_TMP, slot=int(found["slot"]))
    if found := _PACK.fullmatch(name):
        return Staged(name, NameKind.PACK, folder=int(found["folder"]))
    plain = (kind for kind, pattern in _PLAIN.items() if pattern.fullmatch(name))
    return Staged(name, next(plain, NameKind.UNKNOWN))


def epochs_to_look_up(decided: Decided, names: Iterable[str]) -> set[Epoch]:
    """Epochs whose record, if there is one, `decide` has to know."""
    staged = map(classify, names)
    attempts = (item.epoch for item in staged if item.kind is NameKind.ATTEMPT)
    return {epoch for epoch in attempts if decided.why(epoch) is not None}


def decide(
    decided: Decided,
    names: Iterable[str],
    named: Mapping[Epoch, EpochFiles],
    published: Set[str],
) -> list[Decision]:
    """Apply the garbage rule to a listing. Pure.

    Args:
        decided: What the log says.
        names: All names under stage/, relative to it. Results go by epoch (`results/3-7`), and
            temporary files next to stage/ are `../<name>`.
        named: DATA records of `epochs_to_look_up`; an epoch without a record is left out.
        published: Final names (as in the records) whose files exist and are whole.
    """
    return [_judge(decided, classify(name), named, published) for name in names]


def _judge(
    decided: Decided, item: Staged, named: Mapping[Epoch, EpochFiles], published: Set[str]
) -> Decision:
    match item.kind:
        case NameKind.ATTEMPT | NameKind.INTENT:
            intended = item.kind is NameKind.INTENT
            by_epoch = named.get(item.epoch)
            return (
                _judge_intent(decided, item)
                if intended
                else _judge_attempt(decided, item, by_epoch, published)
            )
        case NameKind.RESULTS:
            why = decided.why(item.epoch)
            return Decision(item.name, why is not None, why or _open(item.epoch))
        case NameKind.PROBE:
            # Made before the fence of a driver that had read this term; a later term has won.
            over = item.epoch[0] < decided.term
            why = f"slot {decided.fence_seq} fences term {decided.term}"
            return Decision(item.name, over, why if over else "a driver may be starting")
        case NameKind.SLOT_TMP:
            # The record is in the slot or it lost; a put that still runs reads the slot then.
            taken = item.slot < decided.next_seq
            why = f"slot {item.slot} is {'' if taken else 'not '}decided"
            return Decision(item.name, taken, why)
        case NameKind.OWNER_TMP:
            done = decided.next_seq > 0
            return Decision(item.name, done, "OWNER is there" if done else "OWNER may be missing")
        case NameKind.RESERVE_TMP | NameKind.REQUEST_TMP | NameKind.ADVICE_TMP | NameKind.CLOCK:
            # A writer that still makes it does without. The reserve is made after the next commit,
            # and the lease renewed a little later. A caller puts the request again, and the store's
            # clock is read from another file.
            return Decision(item.name, removable=True, reason="no record ever names it")
        case NameKind.PACK:
            # Packs never go, and hold what was decided: the folder needs no second one.
            there = item.folder in decided.packed
            why = f"the pack of folder {item.folder} is {'' if there else 'not '}there"
            return Decision(item.name, there, why)
        case NameKind.UPKEEP | NameKind.UNKNOWN:
            ours = item.kind is NameKind.UPKEEP
            why = "the driver's upkeep clears it" if ours else "not a name that is made here"
            return Decision(item.name, removable=False, reason=why)


def _judge_attempt(
    decided: Decided, item: Staged, named: EpochFiles | None, published: Set[str]
) -> Decision:
    why = decided.why(item.epoch)
    if why is None:
        return Decision(item.name, removable=False, reason=_open(item.epoch))
    files = [] if named is None else _of_folder(named, item.name)
    if named is None or not files:
        return Decision(item.name, removable=True, reason=f"no record names it; {why}")
    # A REPLACE may have removed them since.
    done = named.seq < decided.published_through
    waiting = [] if done else [file.final for file in files if file.final not in published]
    if waiting:
        reason = (
            f"slot {named.seq} names it; {len(waiting)} of {len(files)} files are not at their "
            "final names"
        )
        return Decision(item.name, removable=False, reason=reason)
    since = ", or were removed since" if done else ""
    reason = f"slot {named.seq} names it; all {len(files)} files are at their final names{since}"
    return Decision(item.name, removable=True, reason=reason)


def _judge_intent(decided: Decided, item: Staged) -> Decision:
    if item.slot >= decided.next_seq:
        return Decision(item.name, removable=False, reason=f"slot {item.slot} is not decided")
    if item.slot in decided.intents:
        return Decision(item.name, removable=False, reason=f"the work of slot {item.slot} goes on")
    return Decision(item.name, removable=True, reason=f"the work of slot {item.slot} has ended")


def _of_folder(named: EpochFiles, name: str) -> list[FileRecord]:
    return [file for file in named.files if file.staged.partition("/")[0] == name]


def _open(epoch: Epoch) -> str:
    return f"a record of term {epoch[0]} may still name epoch {epoch[1]}"
