"""Reports the ledger's committed ends as the offsets of a group, for lag tools.

No driver reads them back: each START reports them again.
"""

from sluiceway.errors import Retriable, SluicewayError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.follower import Follower, LogView
from sluiceway.sources.contract import SourceClient, SourcePartition


class GroupOffsets(Follower):
    """Makes the offsets of a route's group equal to the committed ends of its source partitions.

    Args:
        source: Source of the route's connection; closed by its owner.
        group: Group of the route.
        connection: The servers, as `Follower.connection`.
    """

    name = "offsets"

    def __init__(self, source: SourceClient, group: str, connection: str) -> None:
        self.connection = connection
        self._source = source
        self._group = group
        self._desired: tuple[int, dict[SourcePartition, int]] = 0, {}
        self._place = 0
        self._silent = False

    def place(self) -> int:
        """See `Follower.place`."""
        return self._place

    def update(self, fold: Fold, since: int, *, again: bool = False) -> None:
        """See `Follower.update`: only the newest ends count."""
        del again
        if since < fold.next_seq or not self._desired[0]:
            self._desired = fold.next_seq, committed_ends(fold)

    def follow(self, view: LogView) -> int:
        """See `Follower.follow`.

        Raises:
            FencedError: Another driver reports to the group now.
            SourceUnavailableError: The group's coordinator does not answer.
            UnhealthyEnvironmentError: The broker lacks the permission for the group.
        """
        through, ends = self._desired
        view.log.check_held()
        # Unreachable servers must not delay a driver's end: the next START reports again.
        if ends and not (view.last and self._silent):
            try:
                self._source.report(self._group, ends)
            except SluicewayError as error:
                self._silent = isinstance(error, Retriable)
                if not (view.last and self._silent):
                    raise
            else:
                self._silent = False
        self._place = max(self._place, min(through, view.through))
        return self._place


def committed_ends(fold: Fold) -> dict[SourcePartition, int]:
    """What a route reports: the committed end of each source partition that it reads."""
    return {
        SourcePartition(topic, number): known.end
        for (topic, number), known in fold.sources.items()
        if not known.retired
    }
