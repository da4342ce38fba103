"""Schemas of a registry by id, kept while the process lives: a schema never changes its id."""

import hashlib
import json
import os
import stat
import tempfile
import threading
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from sluiceway.errors import SchemaRegistryUnavailableError
from sluiceway.formats.schema_registry.client import RegisteredSchema, RegistryClient
from sluiceway.formats.schema_registry.frame import schema_name
from sluiceway.formats.schema_registry.settings import RegistrySettings

MAX_SHARED = 10_000
_MAX_BYTES = 1 << 20


class SharedUnknown:
    """Unknown ids of one registry and login, in a file that workers share.

    Args:
        settings: The registry.
        folder: Folder of the file; None takes the user's own below the machine's temporary folder.
    """

    def __init__(self, settings: RegistrySettings, folder: Path | None = None) -> None:
        # Logins may see different schemas. No secret can be read back from the name.
        told = "\0".join((settings.url, settings.username, settings.token))
        name = hashlib.sha256(told.encode()).hexdigest()[:32]
        own = f"sluiceway-{os.getuid()}"
        self._folder = Path(tempfile.gettempdir()) / own if folder is None else folder
        self._path = self._folder / f"unknown-schemas-{name}.json"

    def read(self) -> dict[int, float]:
        """Ids not to ask for now -> seconds that this still holds."""
        now = time.time()
        return {number: until - now for number, until in self._read(now).items()}

    def add(self, numbers: Iterable[int], for_s: float) -> None:
        """Record for other workers that these ids are unknown."""
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
        # A clock that was set back must not make an entry last longer than its maker said.
        return {number: until for number, until in told.items() if now < until <= now + 3600}

    def _is_own(self) -> bool:
        """Whether no other user can write there."""
        found = self._folder.lstat()
        shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not shared


OUTAGE_WAIT_S = 10.0
"""How long a task waits for a registry that does not answer before it fails and is run again."""
REMEMBERED_S = 60.0
"""How long an id stays unknown without another look."""
MAX_REMEMBERED = 100_000
MAX_UNKNOWN = 200
"""Most unknown ids that are asked for during `remembered_s`.

Garbage instead of a payload names any of four thousand million ids. Further ids are not asked for
during that time, so that the other payloads go on."""

_POLL_S = 1.0
_LONGEST_POLL_S = 8.0


@dataclass(frozen=True, slots=True)
class UnknownSchemaRetry:
    """The store's waiting times, in seconds.

    Attributes:
        unknown_s: For ids that the registry does not know.
        outage_s: For a registry that does not answer.
        poll_s: Pause between the first two looks for an id; later pauses double.
        remembered_s: How long an id that was waited for stays unknown without another look.
    """

    unknown_s: float
    outage_s: float = OUTAGE_WAIT_S
    poll_s: float = _POLL_S
    remembered_s: float = REMEMBERED_S


class SchemaStore:
    """Schemas by id. Safe to be used by several threads.

    Args:
        client: Client of the registry.
        retry: Waiting times.
        shared: Unknown ids of other workers; None shares nothing.
    """

    def __init__(
        self, client: RegistryClient, retry: UnknownSchemaRetry, shared: SharedUnknown | None = None
    ) -> None:
        self._client = client
        self._retry = retry
        self._shared = shared
        self._known: dict[int, RegisteredSchema] = {}
        self._unknown: dict[int, float] = {}
        self._unasked = set[int]()
        self._not_found = 0
        self._waited_s = self._window_ends = 0.0
        self._lock = threading.Lock()

    def why_unknown(self, number: int) -> str:
        """Why an id has no schema, in words."""
        with self._lock:
            if number not in self._unasked:
                return f"the registry does not know the {schema_name(number)}"
        return (
            f"the {schema_name(number)} was not asked for: the registry did not know {MAX_UNKNOWN} "
            "others within a minute"
        )

    def schemas(self, ids: Collection[int]) -> dict[int, RegisteredSchema | None]:
        """The schemas of some ids. Called once a batch, with the ids in it.

        A producer may have just registered an unknown id: all unknown ids together are waited for
        once. Then they are remembered, and looked up again from time to time without a wait.

        Returns:
            For each id its schema, or None where the registry does not know it.

        Raises:
            SchemaRegistryUnavailableError: The registry does not answer; nothing is known of an id.
            SchemaRegistryRefusedError: It refuses to answer.
        """
        with self._lock:
            missing = {number for number in ids if number not in self._known}
            if missing:
                self._look_for(missing)
            return {number: self._known.get(number) for number in ids}

    def _look_for(self, missing: set[int]) -> None:
        now = time.monotonic()
        if now >= self._window_ends:
            self._window_ends = now + self._retry.remembered_s
            self._not_found, self._waited_s = 0, 0.0
            self._unasked.clear()
        if self._shared is not None:
            told = {number: now + left for number, left in self._shared.read().items()}
            self._unknown.update((n, until) for n, until in told.items() if n not in self._known)
        due = {n for n in missing if now >= self._unknown.get(n, 0.0)}
        fresh = {n for n in due if n not in self._unknown}
        absent = self._ask_first(due)
        began, pause_s = time.monotonic(), self._retry.poll_s
        # Ids that come one by one are not waited for one by one: rows would fall behind.
        deadline = began + self._retry.unknown_s - self._waited_s
        while (waited_for := absent & fresh) and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(pause_s, left))
            pause_s = min(2 * pause_s, max(_LONGEST_POLL_S, self._retry.poll_s))
            absent -= self._ask(waited_for)
        self._waited_s += time.monotonic() - began
        self._remember(absent)

    def _remember(self, absent: set[int]) -> None:
        """Stop asking for these for a while, and for the ids above the limit."""
        if len(self._unknown) + len(absent) > MAX_REMEMBERED:
            self._unknown.clear()
        remembered_s = self._retry.remembered_s
        self._unknown.update(dict.fromkeys(absent, time.monotonic() + remembered_s))
        if self._shared is not None and absent:
            self._shared.add(absent, remembered_s)

    def _ask_first(self, due: set[int]) -> set[int]:
        """Look up each id, as many as the limit allows; returns the unknown ones.

        Registries count from 1, so small ids are more probably valid.
        """
        absent = set[int]()
        for number in sorted(due):
            if self._not_found >= MAX_UNKNOWN:
                if len(self._unasked) < MAX_REMEMBERED:
                    self._unasked.add(number)
            elif not self._ask({number}):
                absent.add(number)
                self._not_found += 1
        return absent

    def _ask(self, ids: set[int]) -> set[int]:
        """Look up each id once; returns the known ones."""
        found = set()
        for number in sorted(ids):
            schema = self._ask_patiently(number)
            if schema is not None:
                self._known[number] = schema
                self._unknown.pop(number, None)
                found.add(number)
        return found

    def _ask_patiently(self, number: int) -> RegisteredSchema | None:
        deadline = time.monotonic() + self._retry.outage_s
        while True:
            try:
                return self._client.schema_of_id(number)
            except SchemaRegistryUnavailableError:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise
                time.sleep(min(self._retry.poll_s, left))


_STORES: dict[RegistrySettings, SchemaStore] = {}
_STORES_LOCK = threading.Lock()


def process_store(settings: RegistrySettings) -> SchemaStore:
    """The store that all tasks of this process share, over epochs.

    Called when a decoder is made; connects to nothing.

    Raises:
        SchemaRegistryRefusedError: A file of certificates cannot be used.
    """
    with _STORES_LOCK:
        store = _STORES.get(settings)
        if store is None:
            retry = UnknownSchemaRetry(int(settings.unknown_wait_ms) / 1000)
            store = _STORES[settings] = SchemaStore(
                RegistryClient(settings), retry, SharedUnknown(settings)
            )
        return store
