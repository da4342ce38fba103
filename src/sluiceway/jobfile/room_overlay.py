"""A job file as one of its rooms sees it: the room's connections over the file's own."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from sluiceway.jobfile import document
from sluiceway.jobfile.blocks.rooms import RoomsSpec
from sluiceway.jobfile.blocks.routes import laid_over
from sluiceway.jobfile.blocks.topic_pattern import pattern_of
from sluiceway.jobfile.blocks.values import is_secret_key
from sluiceway.jobfile.document import Entry, Mapping, Node, Scalar
from sluiceway.jobfile.problems import JobFileProblem, Mark, quoted

ROOMS = "rooms"
ROOM_VARIABLE = "SLUICEWAY_ROOM"
"""A machine's room, for commands without `--room`."""

_CONNECTIONS = "connections"
_LOCATION = "location"
_DIGEST_DIGITS = 16
_LEAST_ROOMS = 2
_SHOWN = 8
ROOM_NAME = re.compile(r"(?!all$)[a-z0-9][a-z0-9_-]{0,31}")
ROOM_NAME_EXPECTED = "1 to 32 of a-z, 0-9, `_`, `-`, and not `all`"
_SETTINGS = frozenset(
    {*(info.alias or name for name, info in RoomsSpec.model_fields.items()), *RoomsSpec.LATER}
)


def rooms_of(root: Node | None) -> dict[str, Entry]:
    """The rooms that a file names, each with its entry; empty without the block."""
    block = _rooms_block(root)
    if block is None:
        return {}
    return {
        entry.key: entry
        for entry in block.entries
        if entry.key not in _SETTINGS and isinstance(entry.value, Mapping)
    }


def rooms_mark(root: Node | None) -> Mark | None:
    """Where the block `rooms` begins; None for a file without it."""
    entry = _entry(root, ROOMS)
    return None if entry is None else entry.mark


def home_of(root: Node | None) -> str:
    """The home room as it is written; empty where there is none."""
    entry = _entry(_rooms_block(root), "home")
    return "" if entry is None else _text(entry)


def room_problems(root: Node | None) -> Iterator[JobFileProblem]:
    """Problems of the rooms' names. Called once per load of a file with the block."""
    entry, rooms = _entry(root, ROOMS), rooms_of(root)
    if entry is None or not isinstance(entry.value, Mapping):
        return
    for name, room in rooms.items():
        if ROOM_NAME.fullmatch(name) is None:
            text = f"expected {ROOM_NAME_EXPECTED}, got {quoted(name)}"
            yield JobFileProblem(room.mark, text, "rename the room")
    if len(rooms) < _LEAST_ROOMS:
        text = f"expected two rooms or more, got {len(rooms)}"
        yield JobFileProblem(entry.mark, text, "write each as `NAME: {connections: {...}}`")
    home = _entry(entry.value, "home")
    if home is not None and home_of(root) not in rooms and len(rooms) >= _LEAST_ROOMS:
        text = f"expected one of the rooms {', '.join(rooms)}, got {quoted(home_of(root))}"
        yield JobFileProblem(home.value.mark, text, "correct it, or add the room")
    yield from _copy_problems(root, entry, rooms)


def name_problems(written: Node | None, root: Node | None) -> Iterator[JobFileProblem]:
    """Names in rooms that the job does not have. Called once per load of a file with the block.

    Args:
        written: The whole file, as written.
        root: The same for a room, with the topics that references name.
    """
    rooms = rooms_of(written)
    given = {name: _names_in(_entry(each.value, _CONNECTIONS)) for name, each in rooms.items()}
    known = {each.key for each in _names_in(_entry(written, _CONNECTIONS))}
    for name, entries in given.items():
        for entry in entries:
            # Rooms may share no connection: each then has it whole.
            everywhere = all(entry.key in {one.key for one in each} for each in given.values())
            if entry.key not in known and not everywhere:
                what = f"expected a connection of the job in room {quoted(name)}"
                yield _unknown_name(entry, what, known, "add it to the file's `connections`")
    names, patterns = _read_topics(root)
    compiled = [pattern_of(text) for text in patterns]
    if None in compiled:
        return
    for name, each in rooms_of(root).items():
        for entry in _names_in(_entry(each.value, "topics")):
            if entry.key in names or any(one and one.fullmatch(entry.key) for one in compiled):
                continue
            what = f"expected a topic that the job reads in room {quoted(name)}"
            todo = "remove it: keys are the job's own names"
            yield _unknown_name(entry, what, {*names, *patterns}, todo)


def shared_connections(root: Mapping) -> frozenset[str]:
    """Connections of the file that two rooms or more use as they are.

    One with a reference is not among them: each room's machine may have another text for it.

    Args:
        root: The whole file, as written.
    """
    own = [_names_in(_entry(each.value, _CONNECTIONS)) for each in rooms_of(root).values()]
    return frozenset(
        each.key
        for each in _names_in(_entry(root, _CONNECTIONS))
        if "${" not in str(_plain(each.value))
        and sum(each.key not in {one.key for one in room} for room in own) >= _LEAST_ROOMS
    )


def _names_in(entry: Entry | None) -> tuple[Entry, ...]:
    return entry.value.entries if entry is not None and isinstance(entry.value, Mapping) else ()


def _unknown_name(entry: Entry, what: str, known: Iterable[str], todo: str) -> JobFileProblem:
    names = sorted(known)
    close = get_close_matches(entry.key, names, n=1)
    shown = ", ".join(map(quoted, names[:_SHOWN])) + (", ..." if names[_SHOWN:] else "")
    meant = f"did you mean {quoted(close[0])}? Else {todo}" if close else todo
    text = f"{what} ({shown or 'it has none'}), got {quoted(entry.key)}"
    return JobFileProblem(entry.mark, text, meant)


def _read_topics(root: Node | None) -> tuple[set[str], set[str]]:
    """Names and patterns of the topics that the job reads."""
    listed = _entry(root, "routes")
    routes = listed.value.items if listed and isinstance(listed.value, document.Sequence) else ()
    source = _entry(root, "source")
    found = [_entry(each, "topics") for each in (*routes, source.value if source else None)]
    nodes = [entry.value for entry in found if entry is not None]
    lists = [node.items for node in nodes if isinstance(node, document.Sequence)]
    names = {str(one.value) for each in lists for one in each if isinstance(one, Scalar)}
    return names, {str(node.value) for node in nodes if isinstance(node, Scalar)}


def _copy_problems(
    root: Node | None, block: Entry, rooms: dict[str, Entry]
) -> Iterator[JobFileProblem]:
    """Problems of tables that are copied, or of places that only copied tables have."""
    storage, switch = _entry(block.value, "storage"), _entry(block.value, "switch")
    copied = storage is not None and _text(storage) == "copied"
    many = _entry(root, "routes") is not None
    if copied and switch is not None and _text(switch) == "auto":
        text = "expected `ask`: of two copies, only an operator can say which room is down"
        yield JobFileProblem(switch.value.mark, text, "remove it; run `adopt` when a room is lost")
    for name, room in rooms.items():
        place = _entry(room.value, _LOCATION)
        if place is not None and not copied:
            text = "expected no location: one store spans the rooms"
            yield JobFileProblem(place.mark, text, "remove it, or write `storage: copied`")
        elif place is not None and many:
            text = "expected no location in a job with routes"
            yield JobFileProblem(place.mark, text, "give the rooms' stores the same names")
        elif place is None and copied and not many:
            text = f"expected the key `location` in room {quoted(name)}"
            yield JobFileProblem(room.mark, text, "write where the table lies there")


def lay_room(root: Mapping, room: str) -> Mapping:
    """Lay a room's connections over those of the file. Called before references are read.

    Only the room's own references are read later: what other rooms have is left out.

    Args:
        root: The whole file, as written.
        room: One of `rooms_of`; any other text lays nothing over.
    """
    rooms = rooms_of(root)
    if not rooms:
        return root
    own = rooms[room].value if room in rooms else None
    entries = [_without_rooms(entry, rooms) for entry in root.entries]
    laid = Mapping(tuple(entries), root.mark)
    place = _entry(own, _LOCATION)
    if place is not None and isinstance(place.value, Scalar):
        for key in ("hive", "table"):
            place = Entry(key, place.mark, Mapping((place,), place.mark))
        laid = laid_over(laid, Mapping((place,), root.mark))
    given = _entry(own, _CONNECTIONS)
    if given is None or not isinstance(given.value, Mapping):
        return laid
    return laid_over(laid, Mapping((given,), root.mark))


def _without_rooms(entry: Entry, rooms: dict[str, Entry]) -> Entry:
    if entry.key != ROOMS or not isinstance(entry.value, Mapping):
        return entry
    kept = tuple(_without_own(each) if each.key in rooms else each for each in entry.value.entries)
    return Entry(entry.key, entry.mark, Mapping(kept, entry.value.mark))


def _without_own(entry: Entry) -> Entry:
    kept = entry.value.entries if isinstance(entry.value, Mapping) else ()
    rest = tuple(each for each in kept if not _is_own(each))
    return Entry(entry.key, entry.mark, Mapping(rest, entry.value.mark))


def _is_own(entry: Entry) -> bool:
    """Whether it is laid over the file in its own room, so that its references wait for that."""
    kind = {_CONNECTIONS: Mapping, _LOCATION: Scalar}.get(entry.key)
    return kind is not None and isinstance(entry.value, kind)


def _text(entry: Entry) -> str:
    return str(entry.value.value) if isinstance(entry.value, Scalar) else ""


def file_digest(root: Mapping) -> str:
    """Digest of a job file without `rooms` and secrets: equal files of two rooms have it in common.

    Args:
        root: The whole file, as written: references stay as they are.
    """
    kept = Mapping(tuple(entry for entry in root.entries if entry.key != ROOMS), root.mark)
    text = json.dumps(_plain(kept), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS]


def _plain(node: Node) -> Any:
    if isinstance(node, Mapping):
        return {e.key: _plain(e.value) for e in node.entries if not is_secret_key(e.key)}
    if isinstance(node, document.Sequence):
        return [_plain(item) for item in node.items]
    return node.value


def _rooms_block(root: Node | None) -> Mapping | None:
    entry = _entry(root, ROOMS)
    return entry.value if entry is not None and isinstance(entry.value, Mapping) else None


def _entry(node: Node | None, key: str) -> Entry | None:
    entries = node.entries if isinstance(node, Mapping) else ()
    return next((entry for entry in entries if entry.key == key), None)
