"""The block `files` of a job file: how rows become files of a table."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from sluiceway.spec.block import Block
from sluiceway.spec.file_name_parts import PREFIX, SUFFIX
from sluiceway.spec.values import duration, size, wrong

_MOST_OPEN = 4096


def _check_max_open(number: int) -> int:
    if not 0 < number <= _MOST_OPEN:
        raise wrong(f"a number of files, 1 to {_MOST_OPEN}", "choose one")
    return number


def _check_prefix(text: str) -> str:
    if text and not PREFIX.fullmatch(text):
        raise wrong(
            "1 to 32 of A-Z, a-z, 0-9, `.`, `_`, `-`, a letter or digit first",
            "readers leave out files whose names begin with `_` or `.`",
        )
    return text


def _check_suffix(text: str) -> str:
    if text and not SUFFIX.fullmatch(text):
        raise wrong("1 to 32 of A-Z, a-z, 0-9, `.`, `_`, `-`", "leave the file's ending to us")
    return text


class FilesSpec(Block):
    """How rows become files.

    Attributes:
        target_size_bytes: Size at which a task closes a file and begins another.
        roll_interval_ms: Time after its first row at which a task closes a file.
        idle_close_ms: Time without a row after which a task closes a file.
        max_open: Most files that a task has open for a route at once.
        prefix: Text before the names of data files; empty adds none.
        suffix: Text after these names, before the ending of the format; empty adds none.
        compact: Whether small files of a partition are merged before it is announced.
    """

    target_size_bytes: Annotated[int, *size("64KiB", "16GiB")] = Field(
        default=128 << 20, alias="target_size"
    )
    roll_interval_ms: Annotated[int, *duration("1s", "1d")] = Field(
        default=600_000, alias="roll_interval"
    )
    idle_close_ms: Annotated[int, *duration("1s", "1d")] = Field(default=30_000, alias="idle_close")
    max_open: Annotated[int, AfterValidator(_check_max_open)] = 64
    prefix: Annotated[str, AfterValidator(_check_prefix)] = ""
    suffix: Annotated[str, AfterValidator(_check_suffix)] = ""
    compact: Literal["before_ready", "never"] = "before_ready"
