"""A line of `bench/results`: figures, when they were measured, and where."""

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any


def kept_line(figures: Mapping[str, Any], **more: Any) -> str:
    """The line, its end included.

    Args:
        figures: As the closing line has them.
        more: What they are made of; stands behind them.
    """
    machine = {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "sluiceway": version("sluiceway"),
    }
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps({"at": at, **figures, "machine": machine, **more}) + "\n"
