"""Options of built-in formats: texts from the job file, each one of a few, or free."""

from collections.abc import Mapping

FREE = ("",)
"""In place of the choices of an option that any text will do for; left out, it is empty."""


def known_options(
    name: str, given: Mapping[str, str], known: Mapping[str, tuple[str, ...]]
) -> dict[str, str]:
    """All options of a format, with defaults for those that were not given.

    Called when a decoder is made.

    Args:
        name: Of the format.
        given: As the job file has them.
        known: The choices of each option, the default first.

    Raises:
        ValueError: The format has no such option, or not this choice.
    """
    for option, value in given.items():
        choices = known.get(option)
        if choices is None or (choices != FREE and value not in choices):
            raise ValueError(f"the format {name} has no option {option}: {value}")
    return {option: given.get(option, choices[0]) for option, choices in known.items()}
