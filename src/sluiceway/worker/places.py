"""Where rows of a task go: partitions of the table, and late places of partitions."""

from typing import NamedTuple

Values = tuple[str | None, ...]
"""Values of the partition columns."""


class LatePlace(NamedTuple):
    """Where late rows of a partition go: a folder that readers of the table do not see."""

    values: Values


Place = Values | LatePlace
