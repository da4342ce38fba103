"""Schemas of a registry by id, kept while the process lives: a schema never changes its id."""

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass

from sluiceway.errors import SchemaRegistryUnavailableError
from sluiceway.formats.schema_registry.client import RegisteredSchema, RegistryClient
from sluiceway.formats.schema_registry.settings import RegistrySettings

OUTAGE_WAIT_S = 10.0
"""How long a task waits for a registry that does not answer before it fails, to be run again."""
REMEMBERED_S = 60.0
"""How long an id stays unknown without another look."""
MAX_REMEMBERED = 100_000

_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the store waits, in seconds.

    Attributes:
        unknown_s: For ids that the registry does not know.
        outage_s: For a registry that does not answer.
        poll_s: Between two looks.
        remembered_s: How long an id that was waited for is unknown without another look.
    """

    unknown_s: float
    outage_s: float = OUTAGE_WAIT_S
    poll_s: float = _POLL_S
    remembered_s: float = REMEMBERED_S


class SchemaStore:
    """Schemas by id. Safe to be used by several threads.

    Args:
        client: Of the registry.
        patience: How long it waits.
    """

    def __init__(self, client: RegistryClient, patience: Patience) -> None:
        self._client = client
        self._patience = patience
        self._known: dict[int, RegisteredSchema] = {}
        self._unknown: dict[int, float] = {}
        self._lock = threading.Lock()

    def schemas(self, ids: Collection[int]) -> dict[int, RegisteredSchema | None]:
        """The schemas of some ids. Called once a batch, with the ids in it.

        An id that is not known may be one that a producer has just registered: all of them
        together are waited for once. Then they are remembered, and later looked at again
        now and then without a wait.

        Returns:
            For each id its schema, or None for one that the registry does not know.

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
        due = {n for n in missing if now >= self._unknown.get(n, 0.0)}
        fresh = {n for n in due if n not in self._unknown}
        deadline = now + self._patience.unknown_s
        due -= self._ask(due)
        while (waited_for := due & fresh) and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(self._patience.poll_s, left))
            due -= self._ask(waited_for)
        if len(self._unknown) + len(due) > MAX_REMEMBERED:
            self._unknown.clear()
        again = time.monotonic() + self._patience.remembered_s
        self._unknown.update(dict.fromkeys(due, again))

    def _ask(self, ids: set[int]) -> set[int]:
        """Look each id up once; those that are known now."""
        found = set()
        for number in sorted(ids):
            schema = self._ask_patiently(number)
            if schema is not None:
                self._known[number] = schema
                self._unknown.pop(number, None)
                found.add(number)
        return found

    def _ask_patiently(self, number: int) -> RegisteredSchema | None:
        deadline = time.monotonic() + self._patience.outage_s
        while True:
            try:
                return self._client.schema_of_id(number)
            except SchemaRegistryUnavailableError:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise
                time.sleep(min(self._patience.poll_s, left))


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
            patience = Patience(int(settings.unknown_wait_ms) / 1000)
            store = _STORES[settings] = SchemaStore(RegistryClient(settings), patience)
        return store
