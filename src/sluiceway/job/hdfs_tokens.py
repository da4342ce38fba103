"""Keeps HDFS delegation tokens for the tasks of a cluster: new ones before the old ones end."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import uuid4

from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.host.hdfs_tokens import HdfsToken, TokenParcel, packed_tokens
from sluiceway.host.kerberos import KerberosLogin, login_of
from sluiceway.observe.log import Log
from sluiceway.storage.access import HDFS, Stores, store_kind

_RENEWED_AT = 0.5
_SHORTEST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_LOOKS_IN_A_LIFE = 20

Place = tuple[str, Stores]
"""A table's location, and how its store is reached."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Whom tokens are asked of.

    Attributes:
        config_dir: Of Hadoop's configuration.
        service: `hdfs://name`.
    """

    login: KerberosLogin
    config_dir: str
    service: str


Fetch = Callable[[KerberosLogin, str, list[str]], list[HdfsToken]]


class HdfsTokens:
    """Those of one application.

    Tasks on other machines have neither keytab nor ticket: they get tokens with each epoch, which
    end by themselves. The keytab gives new ones for as long as the job runs.

    Args:
        log: Told of new tokens, and when none are given.
        fetch: Asks the name nodes; see `token_jvm.fetch_tokens`.
        default_config_dir: Where a connection names no folder.
    """

    def __init__(self, log: Log, fetch: Fetch, default_config_dir: str = "") -> None:
        self._log = log
        self._fetch = fetch
        self._default_config_dir = default_config_dir
        self._owner = uuid4().hex
        self._asked: set[Asked] = set()
        self._parcel: TokenParcel | None = None
        self._ends_s = 0.0
        self._fetching = threading.Lock()
        self._ended = threading.Event()
        self._renew_now = threading.Event()
        self._thread: threading.Thread | None = None

    def parcel(self, places: Iterable[Place]) -> TokenParcel | None:
        """What tasks at these places need; None when it is nothing. Called before each job.

        At once when it is there: new tokens are got beside it.

        Raises:
            TaskFailedError: There are none, and none are given.
        """
        wanted = {asked for place in places if (asked := self._asked_of(place)) is not None}
        if not wanted:
            return None
        if not self._covers(wanted):
            # Only then is somebody waited for; else new ones are got beside the epochs.
            with self._fetching:
                if not self._covers(wanted):
                    self._get_for(wanted)
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep, name="hdfs-tokens", daemon=True)
            self._thread.start()
        return self._parcel

    def refused(self) -> None:
        """Have new ones got at once: a name node does not know those that tasks have."""
        self._renew_now.set()

    def close(self) -> None:
        """No more are got."""
        self._ended.set()
        self._renew_now.set()

    def _asked_of(self, place: Place) -> Asked | None:
        location, stores = place
        scheme, _, rest = location.partition("://")
        if store_kind(scheme) != HDFS:
            return None
        options = dict(stores.access(HDFS).options)
        login = login_of(options)
        if login is None:
            # The tasks' own tickets or tokens: their environment's matter.
            return None
        folder = options.get("config_dir") or self._default_config_dir
        return Asked(login, folder, f"{scheme}://{rest.partition('/')[0]}")

    def _covers(self, wanted: set[Asked]) -> bool:
        return self._parcel is not None and wanted <= self._asked and time.time() < self._ends_s

    def _get_for(self, wanted: set[Asked]) -> None:
        before, self._asked = self._asked, self._asked | wanted
        try:
            self._get()
        except SluicewayError as error:
            self._asked = before
            raise TaskFailedError(
                f"tasks have no delegation tokens: {error}", hint=error.hint
            ) from error

    def _get(self) -> None:
        """Get all anew."""
        began_s = time.time()
        groups: dict[tuple[KerberosLogin, str], list[str]] = {}
        for asked in sorted(self._asked, key=lambda asked: asked.service):
            groups.setdefault((asked.login, asked.config_dir), []).append(asked.service)
        tokens = [
            token
            for (login, folder), services in groups.items()
            for token in self._fetch(login, folder, services)
        ]
        self._parcel = TokenParcel(self._owner, began_s, packed_tokens(tokens))
        # A file system without security gives none.
        self._ends_s = min((token.ends_s for token in tokens), default=began_s + 86_400.0)
        self._log.info(
            "hdfs_tokens_renewed", tokens=len(tokens), holds_s=round(self._ends_s - began_s)
        )

    def _keep(self) -> None:
        while not self._ended.is_set():
            began_s = self._parcel.fetched_s if self._parcel is not None else time.time()
            life_s = self._ends_s - began_s
            pause_s = min(_LONGEST_PAUSE_S, max(_SHORTEST_PAUSE_S, life_s / _LOOKS_IN_A_LIFE))
            refused = self._renew_now.wait(pause_s)
            if self._ended.is_set():
                return
            if not refused and time.time() < began_s + life_s * _RENEWED_AT:
                continue
            self._renew_now.clear()
            try:
                with self._fetching:
                    self._get()
            except SluicewayError as error:
                left_s = max(0, round(self._ends_s - time.time()))
                self._log.warning("hdfs_tokens_not_renewed", reason=str(error), left_s=left_s)
