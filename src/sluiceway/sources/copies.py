"""What a driver asks its room's queue of topics that a mirror copies."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CopyTraits:
    """What keeps copied rows of a topic from being found.

    Attributes:
        compacted: Rows may be missing whose key came again.
        append_time: Rows have the time of their copy.
    """

    compacted: bool = False
    append_time: bool = False


class CopiedTopics:
    """Part of a source's client; a source that knows no rooms leaves it as it is."""

    def one_place_problems(self, topics: Sequence[str]) -> tuple[str, ...]:
        """Why rows of these topics may be in one room only; empty where they are not.

        Called every five minutes by the driver of a job with rooms, with a client of its own. A
        source that cannot say it returns nothing.

        Raises:
            SourceUnavailableError: It is not known now.
        """
        del topics
        return ()

    def copy_traits(self, topics: Sequence[str]) -> dict[str, CopyTraits]:
        """What keeps copied rows of these topics from being found. All of them exist.

        Called before positions are computed in another room's logs.

        Raises:
            SourceUnavailableError: It is not known now.
        """
        return dict.fromkeys(topics, CopyTraits())

    def writers(self, topic: str) -> tuple[str, ...] | None:
        """Who may write to a topic by its access rules, but for super users.

        Called by `doctor` for topics that a mirror alone may write to.

        Returns:
            None when there are no rules, or when this login may not read them.

        Raises:
            SourceUnavailableError: It is not known now.
        """
        del topic
        return None

    def end_transactions(self, ids: Sequence[str]) -> None:
        """End open transactions of a lost room's mirror, and fence it. Called after the fence.

        Args:
            ids: Ids of its transactions.

        Raises:
            SourceUnavailableError: It is not known whether they have ended.
            UnhealthyEnvironmentError: This login may not end them.
        """
