"""The Kerberos login of a process: from a keytab into a ticket cache, renewed while it lives."""

import fcntl
import hashlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sluiceway.errors import KerberosRefusedError, KerberosUnavailableError, SluicewayError
from sluiceway.host.copied_files import path_here
from sluiceway.host.hdfs_tokens import TOKEN_VARIABLE, holds_tokens
from sluiceway.host.ticket_cache import Ticket, private_folder, read_ticket

UNAVAILABLE = (
    "Cannot contact any KDC",
    "Cannot resolve network address for KDC",
    "Resource temporarily unavailable",
)
"""A later try may find the KDC."""

_TODO = {
    "Clock skew too great": "set this machine's clock, and keep it by NTP: it may differ from the "
    "KDC's by five minutes",
    "Cannot contact any KDC": "is the KDC up, and its address in krb5.conf right?",
    "Cannot resolve network address for KDC": "correct the KDC's name in krb5.conf",
    "Cannot find KDC for realm": "name the realm's KDC in krb5.conf, or correct the realm",
    "not found in Kerberos database while getting initial credentials": "the KDC does not know the "
    "principal: correct `kerberos.principal`, or have it made",
    "not found in Kerberos database": "the KDC does not know the service: correct its "
    "principal, `service_principal` of a metastore, or the host in its address",
    "Preauthentication failed": "the keytab has an old key: have it exported again",
    "Password incorrect": "the keytab has an old key: have it exported again",
    "no suitable keys": "the keytab has no key of this principal: `klist -kt` shows whose it has",
    "Key table file": "correct `kerberos.keytab`; the file has to be on every machine that runs "
    "tasks",
    "Unsupported key table format": "the file is no keytab: correct `kerberos.keytab`",
    "Permission denied": "let the user of the process read the keytab",
    "credentials have been revoked": "the KDC has locked or ended the principal: have it opened",
    "Ticket expired": "log in again: `kinit`, or let the job do it by its block `kerberos`",
    "ticket expired": "log in again: `kinit`, or let the job do it by its block `kerberos`",
    "No Kerberos credentials available": "log in: `kinit`, or let the job do it by its block "
    "`kerberos`",
    "No credentials cache found": "log in: `kinit`, or let the job do it by its block `kerberos`",
    "Can't open/find Kerberos configuration file": "correct `kerberos.config`, or KRB5_CONFIG",
    "Configuration file does not specify default realm": "write the principal with its realm",
    "Improper format of Kerberos configuration file": "correct krb5.conf",
}


def what_to_do(said: str) -> str:
    """The fix for an error text; empty when it is not from Kerberos."""
    return next((todo for words, todo in _TODO.items() if words in said), "")


def may_come_back(said: str) -> bool:
    """Whether the same call may succeed later, with nothing changed here."""
    return any(words in said for words in UNAVAILABLE)


CACHE_VARIABLE = "KRB5CCNAME"
CONFIG_VARIABLE = "KRB5_CONFIG"
_OPTION = "login."
_RENEWED_AT = 0.5
_LOOKS_IN_A_LIFE = 20
_SHORTEST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_KINIT_TIMEOUT_S = 60.0

NOT_RENEWED = "kerberos_not_renewed"
"""Event: the KDC gave no new ticket; it is asked again until a ticket comes."""
OnTicket = Callable[[str, Mapping[str, object]], None]
"""Called after a renewal, or a failed one: the event's name and its fields."""


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """The job's login to a Kerberos realm.

    Attributes:
        principal: `name@REALM`.
        keytab: File with its key, on every machine that logs in.
        config: File to use instead of /etc/krb5.conf; empty for the machine's own.
    """

    principal: str
    keytab: str
    config: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """Its files on this machine."""
        return tuple(filter(None, (self.keytab, self.config)))

    def options(self) -> tuple[tuple[str, str], ...]:
        """The login as options of a client, which travel to tasks; `login_of` reads them."""
        named = (("config", self.config), ("keytab", self.keytab), ("principal", self.principal))
        return tuple((f"{_OPTION}{name}", value) for name, value in named if value)


def login_of(options: Mapping[str, str]) -> KerberosLogin | None:
    """The login in a client's options; None when the job file has none."""
    principal = options.get(f"{_OPTION}principal")
    if principal is None:
        return None
    keytab, config = options[f"{_OPTION}keytab"], options.get(f"{_OPTION}config", "")
    return KerberosLogin(principal, keytab, config)


def without_login(options: Mapping[str, str]) -> dict[str, str]:
    """A client's options without those of the login."""
    return {name: value for name, value in options.items() if not name.startswith(_OPTION)}


def realm_flag(config: str) -> str:
    """The flag that gives a JVM its krb5.conf; JVMs ignore KRB5_CONFIG."""
    return f"-Djava.security.krb5.conf={config}"


def log_in(login: KerberosLogin) -> Path:
    """Get a ticket for this process, and renew it for as long as the process lives.

    Called before a client of a secured service is made, in the driver, in tasks and in tools. It
    returns at once when there is a ticket. Processes of one user on one machine share the ticket
    cache.

    Returns:
        The ticket cache, for its user alone.

    Raises:
        KerberosUnavailableError: There is no ticket yet, and no KDC answers.
        KerberosRefusedError: The login is refused, or cannot be tried here.
    """
    with _keeping:
        keeper = _keepers.get(os.getpid())
        if keeper is None:
            _keepers.clear()
            keeper = _keepers[os.getpid()] = _Keeper(login)
    keeper.begin(login)
    return keeper.cache


def observe_tickets(on_ticket: OnTicket | None) -> None:
    """Set the observer of renewals in this process; None for no observer."""
    _listeners[:] = [] if on_ticket is None else [on_ticket]


class _Keeper:
    """Holds the one login of a process."""

    def __init__(self, login: KerberosLogin) -> None:
        self._login = login
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._told_start_s = 0
        name = hashlib.sha256(repr(login).encode()).hexdigest()[:16]
        self.cache = private_folder() / f"krb5cc-{name}"

    def begin(self, login: KerberosLogin) -> None:
        if login != self._login:
            raise KerberosRefusedError(
                f"this process is logged in as {self._login.principal} already, and cannot be "
                f"{login.principal} too",
                hint="one process has one Kerberos login: run the other job in another",
            )
        with self._lock:
            # All clients look there: HDFS's, the metastore's, librdkafka.
            os.environ[CACHE_VARIABLE] = f"FILE:{self.cache}"
            if login.config:
                os.environ[CONFIG_VARIABLE] = path_here(login.config)
            # HDFS's client prefers tokens to tickets. YARN's tokens of a container end after a
            # week, and no new ones come for them.
            if not holds_tokens():
                os.environ.pop(TOKEN_VARIABLE, None)
            ticket = self._ticket()
            if ticket is None or ticket.life_left(time.time()) <= 0:
                self._renew()
                ticket = self._ticket()
            if ticket is not None:
                self._log_new_ticket(ticket)
            # A thread renews a valid ticket: no caller waits for a KDC that does not answer.
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="kerberos", daemon=True)
                self._thread.start()

    def _ticket(self) -> Ticket | None:
        found = read_ticket(self.cache)
        return found if found is not None and found.principal == self._login.principal else None

    def _keep(self) -> None:
        while True:
            ticket = self._ticket()
            if ticket is not None and ticket.life_left(time.time()) >= _RENEWED_AT:
                self._log_new_ticket(ticket)
            else:
                try:
                    self._renew()
                except SluicewayError as error:
                    self._log_failure(error, ticket)
            ticket = self._ticket()
            life = _LONGEST_PAUSE_S if ticket is None else ticket.end_s - ticket.start_s
            time.sleep(min(_LONGEST_PAUSE_S, max(_SHORTEST_PAUSE_S, life / _LOOKS_IN_A_LIFE)))

    def _log_failure(self, error: SluicewayError, ticket: Ticket | None) -> None:
        left_s = 0 if ticket is None else max(0, round(ticket.end_s - time.time()))
        fields = {"principal": self._login.principal, "reason": str(error), "left_s": left_s}
        _log_event(NOT_RENEWED, fields)

    def _renew(self) -> None:
        """Ask the KDC, unless another process has done so meanwhile."""
        with _exclusive(self.cache):
            ticket = self._ticket()
            if ticket is not None and ticket.life_left(time.time()) >= _RENEWED_AT:
                return
            fresh = self.cache.with_name(f".{self.cache.name}.{os.getpid()}")
            try:
                _kinit(self._login, fresh)
                fresh.chmod(0o600)
                # As a whole: a reader gets either the old ticket or the new one.
                fresh.replace(self.cache)
            finally:
                fresh.unlink(missing_ok=True)

    def _log_new_ticket(self, ticket: Ticket) -> None:
        """Report each ticket once, also a ticket that another process has requested."""
        if ticket.start_s != self._told_start_s:
            self._told_start_s = ticket.start_s
            holds_s = round(ticket.end_s - time.time())
            _log_event("kerberos_renewed", {"principal": ticket.principal, "holds_s": holds_s})


_keeping = threading.Lock()
# By process: a worker may be forked from a process that was logged in.
_keepers: dict[int, _Keeper] = {}
_listeners: list[OnTicket] = []


def _log_event(event: str, fields: Mapping[str, object]) -> None:
    for listener in tuple(_listeners):
        listener(event, fields)


@contextmanager
def _exclusive(cache: Path) -> Iterator[None]:
    with cache.with_name(f"{cache.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _kinit(login: KerberosLogin, cache: Path) -> None:
    """Log in from the keytab into a cache.

    Source: kinit(1) of MIT Kerberos.
    """
    keytab = path_here(login.keytab)
    if not Path(keytab).is_file():
        # kinit's text for this is that for a file without read permission.
        raise KerberosRefusedError(
            f"there is no keytab {keytab}", hint=what_to_do("Key table file")
        )
    command = ["kinit", "-k", "-t", keytab, "-c", f"FILE:{cache}", login.principal]
    environment = {**os.environ, "LC_ALL": "C"}
    if login.config:
        environment[CONFIG_VARIABLE] = path_here(login.config)
    try:
        done = subprocess.run(  # noqa: S603
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_KINIT_TIMEOUT_S,
        )
    except FileNotFoundError as error:
        raise KerberosRefusedError(
            "there is no command kinit on this machine",
            hint="Debian and Ubuntu: apt-get install krb5-user; Fedora: dnf install "
            "krb5-workstation",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise KerberosUnavailableError(
            f"the login of {login.principal} was not answered in {_KINIT_TIMEOUT_S:.0f} s",
            hint=what_to_do("Cannot contact any KDC"),
        ) from error
    if done.returncode != 0:
        raise _refusal(login, done.stderr.strip())


def _refusal(login: KerberosLogin, said: str) -> SluicewayError:
    kind = KerberosUnavailableError if may_come_back(said) else KerberosRefusedError
    text = said.partition("\n")[0].removeprefix("kinit: ")
    return kind(
        f"the login of {login.principal} with {login.keytab} failed: {text}",
        hint=what_to_do(said) or "`kinit -kt KEYTAB PRINCIPAL` shows the same",
    )
