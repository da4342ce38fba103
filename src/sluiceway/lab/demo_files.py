"""Paths of the demo's example job and independent reader: in a checkout or a wheel."""

from pathlib import Path

from sluiceway.errors import UnhealthyEnvironmentError

_PACKED = Path(__file__).parent / "packed"
_CHECKOUT = Path(__file__).resolve().parents[3]


def orders_job() -> Path:
    """The job file that the README shows and the demo runs.

    Raises:
        UnhealthyEnvironmentError: The installation is incomplete.
    """
    return _first(_CHECKOUT / "examples/orders.yaml", _PACKED / "orders.yaml")


def independent_reader() -> Path:
    """The reader that shares no code with the product, as a script.

    Raises:
        UnhealthyEnvironmentError: The installation is incomplete.
    """
    script = "tools/independent_reader.py"
    return _first(_CHECKOUT / "tests" / script, _PACKED / script)


def _first(*paths: Path) -> Path:
    for path in paths:
        if path.is_file():
            return path
    raise UnhealthyEnvironmentError(
        f"{paths[-1].name} is missing from the installation", hint="install sluiceway again"
    )
