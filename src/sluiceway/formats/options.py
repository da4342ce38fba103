"""Options of built-in formats: texts from the job file, each one of a few, or free."""

from collections.abc import Mapping

FREE = ("",)
"""Stands for choices of an option that accepts any text; its default is empty."""


def known_options(
    name: str, given: Mapping[str, str], known: Mapping[str, tuple[str, ...]]
) -> dict[str, str]:
    """All options of a format, with defaults for missing ones.

    Called when a decoder is made.

    Args:
        name: Name of the format.
        given: Options of the job file.
        known: The choices of each option, the default first.

    Raises:
        ValueError: The format has no such option, or not this choice.
    """
    for option, value in given.items():
        choices = known.get(option)
        if choices is None or (choices != FREE and value not in choices):
            raise ValueError(f"the format {name} has no option {option}: {value}")
    return {option: given.get(option, choices[0]) for option, choices in known.items()}


AVRO_SCHEMA = "schema"
AVRO_CONNECT = "connect"
AVRO_BARE = "bare"
"""The field name for a payload that is no record."""
AVRO_SCHEMAS = "schemas."
"""Prefix of the number, where there are several."""

PROTOBUF_DESCRIPTOR_SET = "descriptor_set"
PROTOBUF_SCHEMA = "schema"
PROTOBUF_CONNECT = "connect"
PROTOBUF_MESSAGE = "message"

MAX_PROTOBUF_BYTES = 16 * 1024 * 1024
"""Most bytes of a descriptor set, or of a text with its imports."""
