"""What one fetch brought, however the consumer hands it over."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError

from sluiceway.sources.contract import SourceBatch, SourcePartition

Offsets = npt.NDArray[np.int64]


class LogRows(ABC):
    """Rows of one log from one fetch, in the order in which they came.

    Attributes:
        offsets: Offsets of the rows.
    """

    offsets: Offsets

    @abstractmethod
    def cut(self, count: int) -> None:
        """Keep the first `count` rows."""

    @abstractmethod
    def leader_epoch(self) -> int | None:
        """Epoch of the last row; None when unknown."""

    @abstractmethod
    def mean_bytes(self) -> int:
        """About how long a value is."""

    @abstractmethod
    def batch(self, split_index: int, partition: SourcePartition) -> SourceBatch:
        """The rows as the contract has them. Called once, after any `cut`."""


@dataclass(frozen=True, slots=True)
class FetchEvent:
    """What came in place of a record."""

    partition: SourcePartition
    offset: int
    error: KafkaError


@dataclass(frozen=True, slots=True)
class Fetched:
    """One fetch: rows by split index, and events."""

    rows: Sequence[tuple[int, LogRows]]
    events: Sequence[FetchEvent]
