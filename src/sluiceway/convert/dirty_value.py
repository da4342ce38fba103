"""The exception that carries a value's dirty reason up to its row."""

from collections.abc import Sequence

from sluiceway.convert.json_values import described
from sluiceway.types.dirty import MESSAGE_LIMIT_CHARS, DirtyReason, DirtyRow
from sluiceway.types.key_path import step_text

_NO_VALUE = object()


class DirtyValueError(Exception):
    """A payload, or a value in it, cannot be converted. Never leaves this package.

    Args:
        reason: Stable code.
        detail: What is wrong, in words, without the value, which a policy may hide.
        stage: `decode` when the payload as a whole is wrong, else `convert`.
    """

    def __init__(self, reason: DirtyReason, detail: str, *, stage: str = "convert") -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.stage = stage
        self._steps: list[str | int] = []
        self._value: object = _NO_VALUE
        self._target = ""
        self._redacted = False

    def of(self, value: object, target: str) -> "DirtyValueError":
        """Add the value and its target type; only the first call counts, for the innermost value.

        Args:
            value: As it stands in the payload.
            target: The type it does not fit.

        Returns:
            The same exception, to be raised again.
        """
        if not self._target:
            self._value, self._target = value, target
        return self

    def under(self, *steps: str | int) -> "DirtyValueError":
        """Put keys or list positions before the path. Called on the way up.

        Returns:
            The same exception, to be raised again.
        """
        self._steps[:0] = steps
        return self

    def redacted(self) -> "DirtyValueError":
        """Hide the value in the message.

        Returns:
            The same exception, to be raised again.
        """
        self._redacted = True
        return self

    @property
    def path(self) -> str:
        """The place of the value, such as `geo.tags[3]`; cut when keys are long."""
        text = path_text(self._steps)
        # A key of a payload with bad UTF-8 may hold characters that no text can.
        return text[:MESSAGE_LIMIT_CHARS].encode("utf-8", "replace").decode("utf-8")

    @property
    def message(self) -> str:
        """The value, the type and what is wrong: `the number 12.5 -> int: not a whole number`."""
        if not self._target:
            return self.detail
        # Details reveal parts of the value: its length, or which part is wrong.
        detail = self.reason.value if self._redacted else self.detail
        return f"{described(self._value, redacted=self._redacted)} -> {self._target}: {detail}"

    def row(self, index: int) -> DirtyRow:
        """The dirty row for the payload at `index`."""
        message = self.message[:MESSAGE_LIMIT_CHARS]
        return DirtyRow(index, self.stage, self.reason, self.path, message)


class ImpossibleValueError(DirtyValueError):
    """A value is a time that no calendar has.

    Args:
        detail: What is wrong, in words, without the value.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(DirtyReason.BAD_TIME, detail)


def path_text(steps: Sequence[str | int]) -> str:
    """A value's place as text: `geo.tags[3]`, and `['host.name']` for a key with a dot."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else step_text(step, first=not text)
    return text
