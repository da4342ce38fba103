"""Names, rooms and words of the house: `make house` prints what is counted here."""

from sluiceway.cli.app import VERBS
from tools import house

# Rooms that are too large today, and how many files they have at most: they may only shrink.
LARGE_ROOMS: dict[str, int] = {}
MOST_CYCLES = 0
# Not names of metrics: packages and files.
NO_METRICS = frozenset({"sluiceway_native", "sluiceway_delimited", "sluiceway_sqlite_log"})


def test_public_class_is_defined_once() -> None:
    assert house.duplicate_classes() == {}


def test_rooms_hold_at_most_forty_files() -> None:
    large = {room: count for room, count in house.rooms().items() if count > house.MOST_FILES}
    assert {room for room, count in large.items() if count > LARGE_ROOMS.get(room, 0)} == set()
    assert set(LARGE_ROOMS) - set(large) == set(), "a room that shrank leaves the list"


def test_modules_of_a_room_import_each_other_in_no_further_circle() -> None:
    assert len(house.cycles()) <= MOST_CYCLES, house.cycles()
    assert house.room_cycles() == []


def test_parts_of_a_routes_session_have_few_collaborators() -> None:
    found = house.route_collaborators()
    assert {"RouteSession", "RoutePlanner", "EpochCommitter", "OwnedRoute"} <= found.keys()
    assert {name: parts for name, parts in found.items() if len(parts) > 12} == {}
    assert len(house.imports_of(house.SESSION)) <= 15


def test_names_hold_no_banned_metaphor() -> None:
    assert house.metaphors() == []


def test_events_that_pages_name_are_logged_somewhere() -> None:
    events = house.events_in_docs()
    assert len(events) > 80
    assert sorted(events - house.texts_of_code()) == []


def test_commands_that_pages_name_exist() -> None:
    commands = house.commands_in_docs()
    assert {"run", "status"} <= commands
    assert sorted(commands - {verb.name for verb in VERBS}) == []


def test_metrics_that_pages_name_exist() -> None:
    metrics = house.metrics_in_docs() - NO_METRICS
    known = house.texts_of_code()
    assert len(metrics) > 30
    assert sorted(name for name in metrics if not known & house.metric_forms(name)) == []
