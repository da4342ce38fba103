"""Ids that a registry did not know, told from one worker of a machine to the others.

Each worker waits for an id that nobody knows; what one has waited for the next need not. A file
in a folder of this user's own holds them for a minute. It is advice: where it cannot be read or
written, or is not as it should be, each worker asks for itself.
"""

import hashlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from sluiceway.formats.schema_registry.settings import RegistrySettings

MAX_SHARED = 10_000
_MAX_BYTES = 1 << 20


class SharedUnknown:
    """Of one registry and login.

    Args:
        settings: The registry.
        folder: Where the file is; the user's own below the machine's temporary folder when left
            out.
    """

    def __init__(self, settings: RegistrySettings, folder: Path | None = None) -> None:
        # Logins may see different schemas. Nothing of a secret can be read back from the name.
        told = "\0".join((settings.url, settings.username, settings.token))
        name = hashlib.sha256(told.encode()).hexdigest()[:32]
        own = f"sluiceway-{os.getuid()}"
        self._folder = Path(tempfile.gettempdir()) / own if folder is None else folder
        self._path = self._folder / f"unknown-schemas-{name}.json"

    def read(self) -> dict[int, float]:
        """Ids that are not to be asked for now -> seconds that this holds for."""
        now = time.time()
        return {number: until - now for number, until in self._read(now).items()}

    def add(self, numbers: Iterable[int], for_s: float) -> None:
        """Tell others that these ids were asked for and are not known."""
        now = time.time()
        known = self._read(now) | dict.fromkeys(numbers, now + for_s)
        if len(known) > MAX_SHARED:
            known = dict(sorted(known.items(), key=lambda each: -each[1])[:MAX_SHARED])
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if not self._is_own():
                return
            staged = self._path.with_name(f"{uuid4().hex}.tmp")
            staged.write_text(json.dumps({str(number): until for number, until in known.items()}))
            staged.replace(self._path)

    def _read(self, now: float) -> dict[int, float]:
        try:
            if not self._is_own() or self._path.stat().st_size > _MAX_BYTES:
                return {}
            found = json.loads(self._path.read_text())
            told = {int(number): float(until) for number, until in found.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}
        # A clock that was set back must not make it hold for longer than anybody has said.
        return {number: until for number, until in told.items() if now < until <= now + 3600}

    def _is_own(self) -> bool:
        """Whether nobody else can write there."""
        found = self._folder.lstat()
        shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not shared
