"""Access control: a check before every request of the page, and the headers of every answer."""

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = "127.0.0.1"
OWN_NAMES = frozenset({LOOPBACK, "localhost", "[::1]"})

_MOST_TARGET = 4096
_PORT = re.compile(r":[0-9]*\Z")

SECURITY_HEADERS: Mapping[str, str] = {
    # The page needs only its own files, and no markup is ever made from text.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class PageAccess:
    """Who may send requests.

    Attributes:
        address: IP address that the server listens on.
        hosts: Names by which a browser may call this server, in lower case, without a port.
        token: Token that each request for data needs; None needs none, on loopback only.
    """

    address: str = LOOPBACK
    hosts: frozenset[str] = OWN_NAMES
    token: str | None = field(default=None, repr=False)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return ip_address(self.address).is_loopback


def host_name(header: str) -> str:
    """The name in a header `Host`, without its port."""
    return _PORT.sub("", header.strip()).lower()


class AccessMiddleware:
    """ASGI middleware: lets through only reading requests, under a known name, with the token.

    A page of another site may let its own name point here (DNS rebinding); its requests then carry
    that name. The files of the page are open to every client: they hold no data.

    Args:
        app: The application that gets the accepted requests.
        access: The rules.
    """

    def __init__(self, app: ASGIApp, access: PageAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called by the server for each request."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY_HEADERS)
            await send(message)

        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        if len(scope["raw_path"] or b"") + len(scope["query_string"]) > _MOST_TARGET:
            return _refused(414, "the address is too long")
        if scope["method"] not in ("GET", "HEAD"):
            return _refused(405, "the page only reads", {"Allow": "GET, HEAD"})
        hosts = headers.getlist("host")
        if len(hosts) != 1 or host_name(hosts[0]) not in self._access.hosts:
            return _refused(421, "the header Host names none of this server's names")
        is_foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        # A link from another site to the page itself does no harm.
        is_link = scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"
        if is_foreign and not is_link:
            return _refused(403, "another site asks")
        if scope["path"].startswith("/api/") and not self._brings_token(headers):
            return _refused(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})
        return None

    def _brings_token(self, headers: Headers) -> bool:
        token, given = self._access.token, headers.getlist("authorization")
        if token is None:
            return True
        scheme, _, told = given[0].strip().partition(" ") if len(given) == 1 else ("", "", "")
        return scheme.lower() == "bearer" and hmac.compare_digest(
            told.strip().encode(errors="replace"), token.encode()
        )


def _refused(code: int, why: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": {"message": why}}, code, headers)
