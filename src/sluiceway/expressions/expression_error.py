"""The one error for a text that is no usable expression."""

from sluiceway.errors import JobFileError


class ExpressionError(JobFileError):
    """The text is not an expression of this language, or its types do not fit.

    Args:
        message: What was expected and what came.
        at: Position in the text, from 0.
    """

    def __init__(self, message: str, at: int) -> None:
        super().__init__(f"character {at + 1}: {message}")
        self.reason = message
        self.at = at

    def __reduce__(self) -> tuple[object, ...]:
        return (ExpressionError, (self.reason, self.at))
