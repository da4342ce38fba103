"""The one way in which a long run of a benchmark says that it came to nothing."""


class RunFailedError(Exception):
    """The run did not come to its end; says what, with the end of the driver's log if any."""
