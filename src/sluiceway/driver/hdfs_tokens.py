"""Keeps HDFS delegation tokens for the tasks of a cluster: new ones before the old ones end."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import uuid4

from sluiceway.errors import SluicewayError
from sluiceway.host.hdfs_tokens import DelegationTokens, HdfsToken, packed_tokens
from sluiceway.host.kerberos import KerberosLogin, login_of
from sluiceway.observe.log import Log
from sluiceway.storage.access import HDFS, Stores, store_kind

_RENEWED_AT = 0.5
_SHORTEST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_LOOKS_IN_A_LIFE = 20
_REST_S = 10.0
_FORGOTTEN_AFTER_S = 3_600.0

Place = tuple[str, Stores]
"""A table's location, and the options of its store."""


@dataclass(frozen=True, slots=True)
class TokenService:
    """The name service that gives tokens.

    Attributes:
        config_dir: Folder of Hadoop's configuration.
        service: `hdfs://name`.
    """

    login: KerberosLogin
    config_dir: str
    service: str


@dataclass(slots=True)
class _Held:
    """Tokens of one name service.

    Attributes:
        fetched_s: When they were requested, in seconds since 1970.
        ends_s: When the first of them expires, in seconds since 1970.
        needed_s: When a job last needed it.
        rests_until_s: Until then a name service that refused is not asked again.
    """

    tokens: list[HdfsToken] = field(default_factory=list)
    fetched_s: float = 0.0
    ends_s: float = 0.0
    needed_s: float = 0.0
    rests_until_s: float = 0.0

    @property
    def life_s(self) -> float:
        return self.ends_s - self.fetched_s

    def is_due(self, now_s: float) -> bool:
        """Whether a job has to wait for it: no token is valid, and it may be asked."""
        return now_s >= max(self.ends_s, self.rests_until_s)

    def is_to_be_renewed(self, now_s: float) -> bool:
        """Whether it may be asked, and half of the tokens' life is over."""
        return now_s >= max(self.fetched_s + self.life_s * _RENEWED_AT, self.rests_until_s)


Fetch = Callable[[KerberosLogin, str, str], list[HdfsToken]]


class HdfsTokens:
    """The tokens of one application.

    Tasks on other machines have neither keytab nor ticket: they get tokens with each epoch, and
    these expire by themselves. The keytab gives new tokens for as long as the job runs.

    Args:
        log: Gets events about new tokens and refusals.
        fetch: Asks the name nodes; see `token_jvm.fetch_tokens`.
        default_config_dir: Folder for connections that name none.
    """

    def __init__(self, log: Log, fetch: Fetch, default_config_dir: str = "") -> None:
        self._log = log
        self._fetch = fetch
        self._default_config_dir = default_config_dir
        self._owner = uuid4().hex
        self._held: dict[TokenService, _Held] = {}
        self._made_s = 0.0
        self._delegation_tokens: DelegationTokens | None = None
        self._lock = threading.Lock()
        self._fetching = threading.Lock()
        self._ended = threading.Event()
        self._renew_now = threading.Event()
        self._thread: threading.Thread | None = None

    def delegation_tokens(self, places: Iterable[Place]) -> DelegationTokens | None:
        """The tokens of tasks at these places; None when they need none. Called before each job.

        Returns at once while tokens are valid: a thread fetches new ones meanwhile. A name service
        that gives none is left out. Tasks of its tables then cannot open their store, and their
        routes wait; other routes go on.
        """
        wanted = {asked for place in places if (asked := self._requested_of(place)) is not None}
        if not wanted:
            return None
        with self._lock:
            now_s = time.time()
            for asked in wanted:
                self._held.setdefault(asked, _Held()).needed_s = now_s
            missing = [asked for asked in wanted if self._held[asked].is_due(now_s)]
        if missing:
            # Only then does the caller wait; else a thread fetches new ones while epochs run.
            with self._fetching:
                for asked in missing:
                    if self._held[asked].is_due(time.time()):
                        self._get(asked)
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._keep, name="hdfs-tokens", daemon=True)
            self._thread.start()
        return self._packed()

    def refused(self) -> None:
        """Fetch new tokens at once: a name node does not know those of the tasks."""
        self._renew_now.set()

    def close(self) -> None:
        """Stop fetching tokens."""
        self._ended.set()
        self._renew_now.set()

    def _requested_of(self, place: Place) -> TokenService | None:
        location, stores = place
        scheme, _, rest = location.partition("://")
        if store_kind(scheme) != HDFS:
            return None
        options = dict(stores.access(HDFS).options)
        login = login_of(options)
        if login is None:
            # The tasks' own tickets or tokens: those come from their environment.
            return None
        folder = options.get("config_dir") or self._default_config_dir
        return TokenService(login, folder, f"{scheme}://{rest.partition('/')[0]}")

    def _get(self, asked: TokenService) -> None:
        """Fetch new tokens of one name service; without an answer the old ones stay."""
        began_s = time.time()
        held = self._held.get(asked)
        if held is None:
            return
        try:
            tokens = self._fetch(asked.login, asked.config_dir, asked.service)
        except Exception as error:  # noqa: BLE001 - a library's error must not end the renewing
            # The library's text may hold a secret.
            why = str(error) if isinstance(error, SluicewayError) else type(error).__name__
            left_s = max(0, round(held.ends_s - began_s))
            held.rests_until_s = time.time() + _REST_S
            self._log.warning(
                "hdfs_tokens_not_renewed", service=asked.service, reason=why, left_s=left_s
            )
            return
        # A file system without security gives none.
        ends_s = min((token.ends_s for token in tokens), default=began_s + 86_400.0)
        with self._lock:
            held.tokens, held.fetched_s, held.ends_s = tokens, began_s, ends_s
            self._delegation_tokens = None
        self._log.info(
            "hdfs_tokens_renewed",
            service=asked.service,
            tokens=len(tokens),
            holds_s=round(ends_s - began_s),
        )

    def _packed(self) -> DelegationTokens:
        """All valid tokens, with a later date than any packed before."""
        with self._lock:
            if self._delegation_tokens is None:
                # Workers compare whole seconds.
                self._made_s = max(time.time(), self._made_s + 1.0)
                held = sorted(self._held.items(), key=lambda each: each[0].service)
                tokens = [token for _, each in held for token in each.tokens]
                self._delegation_tokens = DelegationTokens(
                    self._owner, self._made_s, packed_tokens(tokens)
                )
            return self._delegation_tokens

    def _keep(self) -> None:
        while not self._ended.is_set():
            refused = self._renew_now.wait(self._pause_s())
            if self._ended.is_set():
                return
            self._renew_now.clear()
            for asked in self._to_renew(all_of_them=refused):
                with self._fetching:
                    self._get(asked)

    def _pause_s(self) -> float:
        with self._lock:
            lives = [each.life_s for each in self._held.values() if each.fetched_s]
        life_s = min(lives, default=_LONGEST_PAUSE_S)
        return min(_LONGEST_PAUSE_S, max(_SHORTEST_PAUSE_S, life_s / _LOOKS_IN_A_LIFE))

    def _to_renew(self, *, all_of_them: bool) -> list[TokenService]:
        now_s = time.time()
        with self._lock:
            for asked, held in list(self._held.items()):
                # No job has needed it for the life of its tokens: another driver has its table now.
                if now_s - held.needed_s > max(held.life_s, _FORGOTTEN_AFTER_S):
                    del self._held[asked]
                    self._delegation_tokens = None
            return [
                asked
                for asked, held in self._held.items()
                if all_of_them or held.is_to_be_renewed(now_s)
            ]
