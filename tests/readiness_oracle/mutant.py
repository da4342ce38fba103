"""What a wrong variant of the product is."""

from collections.abc import Callable
from dataclasses import dataclass

from tools.mutant_fit import Patch


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong variant.

    Attributes:
        text: What it does wrong.
        make: Its patches, made anew for each use.
    """

    name: str
    text: str
    make: Callable[[], tuple[Patch, ...]]
