"""The Kerberos side of a metastore's login, through the package `gssapi`."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from thrift.transport.TTransport import TTransportException

from sluiceway.catalog.sasl import SaslRefusedError, SaslWire, log_into
from sluiceway.errors import KerberosRefusedError, KerberosUnavailableError, SluicewayError
from sluiceway.host.kerberos import log_in, login_of
from sluiceway.host.kerberos_errors import may_come_back, what_to_do

if TYPE_CHECKING:
    from types import ModuleType

SERVICE = "service_principal"
"""Option that makes a connection one with Kerberos."""

_HOST = "_HOST"


def secured(wire: Any, host: str, options: Mapping[str, str]) -> Any:
    """The wire itself, or one behind a login where the options ask for one.

    Called for each new connection, on the driver.

    Args:
        wire: Just opened.
        host: Where it leads.
        options: Of the connection.

    Raises:
        KerberosRefusedError: The realm or the metastore refuses, or a package is missing.
        KerberosUnavailableError: No KDC answers.
        TTransportException: The connection broke, or is to something else.
    """
    service = options.get(SERVICE)
    if service is None:
        return wire
    gssapi = _gssapi()
    login = login_of(options)
    if login is not None:
        log_in(login)
    principal = service.replace(_HOST, host.lower())
    try:
        return _log_into(wire, _Session(gssapi, principal))
    except gssapi.exceptions.GSSError as error:
        raise _refusal(principal, str(error)) from error
    except SaslRefusedError as error:
        raise KerberosRefusedError(
            f"{principal}: {error}",
            hint=what_to_do(str(error))
            or "is service_principal the one that the metastore runs as? Its log says more",
        ) from error


def _log_into(wire: Any, session: "_Session") -> SaslWire:
    try:
        return log_into(wire, session)
    except (TTransportException, EOFError) as error:
        raise TTransportException(
            message=f"{error}; one without SASL answers like this: its connection has no "
            "`kerberos` then"
        ) from error


def _refusal(principal: str, said: str) -> SluicewayError:
    kind = KerberosUnavailableError if may_come_back(said) else KerberosRefusedError
    return kind(f"no login at the metastore's principal {principal}: {said}", hint=what_to_do(said))


class _Session:
    def __init__(self, gssapi: "ModuleType", principal: str) -> None:
        self.failure: type[Exception] = gssapi.exceptions.GSSError
        name = gssapi.Name(principal, name_type=gssapi.NameType.kerberos_principal)
        flag = gssapi.RequirementFlag
        self._context = gssapi.SecurityContext(
            name=name,
            mech=gssapi.MechType.kerberos,
            usage="initiate",
            flags=flag.mutual_authentication | flag.integrity | flag.confidentiality,
        )

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    def step(self, token: bytes | None) -> bytes:
        return self._context.step(token) or b""

    def wrap(self, data: bytes, *, sealed: bool) -> bytes:
        return bytes(self._context.wrap(data, sealed).message)

    def unwrap(self, data: bytes) -> bytes:
        return bytes(self._context.unwrap(data).message)

    def most_bytes(self, wire_bytes: int, *, sealed: bool) -> int:
        return int(self._context.get_wrap_size_limit(wire_bytes, encrypted=sealed))


def _gssapi() -> "ModuleType":
    try:
        # An extra, since it is built against the system's Kerberos.
        return import_module("gssapi")
    except ImportError as error:
        raise KerberosRefusedError(
            "the Python package gssapi is needed for a metastore with Kerberos, and is not here",
            hint="pip install 'sluiceway[kerberos]'; on Debian and Ubuntu before it: apt-get "
            "install gcc python3-dev libkrb5-dev",
        ) from error
