"""Whether what a simulation says of a mutant is a broken promise, or a mutant that is outdated."""

# A wrong variant of what is not there any more, or that stands in its place in a way which the
# product or the simulation does not expect, breaks by itself; that is no catch.
_BROKEN_BY_ITSELF = ("TypeError", "AttributeError", "NameError", "AssertionError")


def refuse_outdated(mutant: str, violation: str) -> None:
    """Pass when a promise was broken, and not the mutant itself.

    Raises:
        AssertionError: The mutant does not fit the product any more.
    """
    if any(error in violation for error in _BROKEN_BY_ITSELF):
        raise AssertionError(f"mutant {mutant} does not fit: {violation}")
