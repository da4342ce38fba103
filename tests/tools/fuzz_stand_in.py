"""Stands for a decoder that ends the process, raises, or does not come back."""

import os
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.format_fuzz import Work


def end_badly(work: "Work", answers: Connection) -> None:
    """In the place of `run_batches`: dies in batch 1, hangs in 3, counts a crash in 5."""
    for number in range(work.first, work.end, work.step):
        answers.send(number)
        if number == 1:
            os.abort()
        if number == 3:
            time.sleep(3600)
        found = {"payloads": work.batch, "rows": work.batch, "peak_mib": 7}
        answers.send({"payloads": work.batch, "crashes": 1} if number == 5 else found)
