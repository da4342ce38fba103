"""Wrong variants of what follows the commits: places, order, turns, bound, composition."""

from collections.abc import Sequence
from typing import Any

from sluiceway.followers import runner
from sluiceway.followers.files import FilesFollower
from sluiceway.followers.runner import FollowerRunner
from sluiceway.host.work_pool import Work, WorkPool
from sluiceway.ledger.follower import Follower, LogView
from sluiceway.route.owned_route import OwnedRoute


def place_first(follower: FilesFollower, view: LogView) -> int:
    """The place moves, then files get their names; what fails is not done again."""
    del view
    with follower._lock:
        owed = list(follower._owed)
        follower._owed.clear()
    for _, record in owed:
        follower._publisher.publish(record)
    return follower.place()


def any_slot(self: FollowerRunner, each: Any) -> int:
    """A follower is handed what its `after` have not passed."""
    del each
    return self._through


def start_at_the_tail(held: OwnedRoute, since: int, *, again: bool = False) -> None:
    """What the catalog owes is known in memory only: a start begins at the tail."""
    if again:
        since = held.owned.fold.next_seq
    _WANT(held, since, again=again)


_WANT = OwnedRoute.want_partitions


def wake_twice(pool: WorkPool, work: Work) -> None:
    """A work that is called just now is called once more at the same time."""
    with pool._lock:
        pool._make_ready(work)
        pool._call_for_help()


def without_bound(held: OwnedRoute, in_flight: int) -> None:
    """Nothing keeps commits from going on."""
    del in_flight
    held.read_published()


def forgotten(followers: Sequence[Follower]) -> list[Follower]:
    """The catalog follows no record."""
    return _IN_ORDER([each for each in followers if each.name != "catalog"])


_IN_ORDER = runner.in_order
