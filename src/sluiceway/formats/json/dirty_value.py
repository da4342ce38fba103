"""The exception that carries a value's dirty reason up to its row."""

from sluiceway.types.dirty import MESSAGE_LIMIT_CHARS, DirtyReason, DirtyRow


class DirtyValueError(Exception):
    """A payload, or a value in it, cannot be converted. Never leaves this package.

    Args:
        reason: Stable code.
        message: For people.
        stage: `decode` when the payload as a whole is meant, else `convert`.
    """

    def __init__(self, reason: DirtyReason, message: str, *, stage: str = "convert") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.stage = stage
        self._steps: list[str | int] = []

    def under(self, *steps: str | int) -> "DirtyValueError":
        """Put keys or list positions before the path. Called on the way up.

        Returns:
            The same exception, to be raised again.
        """
        self._steps[:0] = steps
        return self

    @property
    def path(self) -> str:
        """The place of the value, as `geo.tags[3]`; cut when keys are long."""
        text = ""
        for step in self._steps:
            text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
        return text[:MESSAGE_LIMIT_CHARS]

    def row(self, index: int) -> DirtyRow:
        """The dirty row for the payload at `index`."""
        message = self.message[:MESSAGE_LIMIT_CHARS]
        return DirtyRow(index, self.stage, self.reason, self.path, message)
