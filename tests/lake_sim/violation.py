"""What ends a seed."""


class ViolationError(Exception):
    """A promise was broken."""
