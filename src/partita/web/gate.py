"""Who may ask: everyone else is refused before a page or the lake hears of it.

| refused | with |
|---|---|
| a Host that isn't this server's, as a name that was rebound to this address has it | 403 |
| an Origin that isn't ours, or a part of a page of another site (Sec-Fetch-Site) | 403 |
| no token, or a wrong one | 401 |
| a change by cookie without the CSRF token | 403 |

A token in the URL that is opened becomes a cookie, and the URL is opened again without it. Cookie and CSRF token are
derived from the token, so that neither tells it. Programs say `Authorization: Bearer TOKEN`, which no browser adds by
itself, and need no CSRF token.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from partita.errors import StatusError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
CSRF_HEADER = "X-Partita-CSRF"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - to be told apart, not bound to


@dataclass(frozen=True, slots=True)
class Keeper:
    """What a request must have: the token, and the host that it was sent to.

    `public` is the origin at which a proxy before this server is reached, as `public_origin` has it.
    """

    token: str
    host: str = "127.0.0.1"
    port: int = 0
    public: str | None = None

    @property
    def is_secure(self) -> bool:
        """Whether the cookie is for TLS alone."""
        return self.public is not None and self.public.startswith("https:")

    @property
    def cookie(self) -> str:
        """The name of the cookie; browsers tell hosts apart in cookies, and not ports."""
        return f"partita_{self.port}"

    @property
    def session(self) -> str:
        """The value of the cookie."""
        return self._derived("cookie")

    @property
    def csrf(self) -> str:
        """The token that a change by cookie must bring."""
        return self._derived("csrf")

    def _derived(self, use: str) -> str:
        return hmac.new(self.token.encode(), use.encode(), sha256).hexdigest()

    def knows_host(self, host: str) -> bool:
        """Whether a Host header names this server.

        One that is bound to all addresses has any of them for a name: an address can't be rebound, as a name can. A
        proxy may pass on the Host that it was asked by, or send this server's own.
        """
        if self._is_public(host):
            return True
        name, port = _split(host)
        if self.port and port not in (str(self.port), *(("",) if self.port == 80 else ())):
            return False
        if self.host in _EVERYWHERE:
            return name in _LOOPBACK or name in _own_names() or _is_address(name)
        return name in (_LOOPBACK if is_loopback(self.host) else (self.host.lower(),))

    def knows_origin(self, origin: str, host: str) -> bool:
        """Whether a page of an origin is this server's, which was asked by this Host."""
        own = () if self._is_public(host) else (f"http://{host}", f"https://{host}")
        return origin in (self.public, *own)

    def _is_public(self, host: str) -> bool:
        return self.public is not None and host.lower() == self.public.partition("://")[2]


def public_origin(url: str) -> str:
    """The origin of the URL of a proxy, as browsers write it; what isn't the root of a host is refused."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    is_root = not (parts.path.strip("/") or parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme not in _PORTS or not parts.hostname or not is_root:
        raise StatusError(
            f"{url!r} is no public URL; write one with a host and no path, as in https://lake.example.com"
        )
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{name}" + ("" if port in (None, _PORTS[parts.scheme]) else f":{port}")


_PORTS = {"http": 80, "https": 443}


@cache
def _own_names() -> frozenset[str]:
    """What this machine is called; asked once, for the answer may come from a name server."""
    return frozenset({socket.gethostname().lower(), socket.getfqdn().lower()})


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    return host.lower() == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


@dataclass(frozen=True, slots=True)
class Gate:
    """The middleware that lets requests through, or answers them itself; and puts the headers on every answer."""

    app: ASGIApp
    keeper: Keeper
    headers: dict[str, str] = field(default_factory=lambda: dict(HEADERS))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self.headers)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self.app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self.keeper.knows_host(headers.get("host", "")):
            return _refused(scope, 403, "this server has another name; open the address that `partita ui` printed")
        if _is_foreign(headers, self.keeper):
            return _refused(scope, 403, "a page of another site can't ask this server")
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        if "token" in query and scope["method"] == "GET":
            return self._entered(scope, query["token"])
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(given, self.keeper.token):
            return None
        cookie = cookie_parser(headers.get("cookie", "")).get(self.keeper.cookie, "")
        if not _same(cookie, self.keeper.session):
            return _refused(scope, 401, "this page needs its token; open the address that `partita ui` printed")
        if scope["method"] not in _SAFE and not _same(headers.get(CSRF_HEADER, ""), self.keeper.csrf):
            return _refused(scope, 403, f"a change needs the header {CSRF_HEADER}, which pages of this server have")
        return None

    def _entered(self, scope: Scope, token: str) -> Response:
        """The same URL without the token, and a cookie in its place."""
        if not _same(token, self.keeper.token):
            return _refused(scope, 401, "that is not the token; open the address that `partita ui` printed")
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        rest = urlencode([(name, value) for name, value in pairs if name != "token"])
        # One slash: what begins with two would be the address of another host.
        path = "/" + scope["path"].lstrip("/\\")
        answer = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
        answer.set_cookie(
            self.keeper.cookie, self.keeper.session, httponly=True, samesite="strict", path="/",
            secure=self.keeper.is_secure,
        )  # fmt: skip
        return answer


def _is_foreign(headers: Headers, keeper: Keeper) -> bool:
    """Whether a page of another origin asks. A link from elsewhere may be followed: Strict keeps the cookie back."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    # A page that sends no referrer has the origin "null" in its changes; then the browser's other word counts.
    hidden = origin == "null" and site == "same-origin"
    if origin is not None and not hidden and not keeper.knows_origin(origin, headers.get("host", "")):
        return True
    return site not in ("none", "same-origin") and headers.get("sec-fetch-mode") != "navigate"


def _refused(scope: Scope, code: int, why: str) -> Response:
    headers = {"WWW-Authenticate": 'Bearer realm="partita"'} if code == 401 else {}
    if scope["path"].startswith("/api/"):
        return JSONResponse({"error": {"type": "Refused", "message": why}}, code, headers)
    return PlainTextResponse(f"{code}: {why}\n", code, headers)


def _same(given: str, wanted: str) -> bool:
    """Whether two texts are the same, in a time that doesn't tell how much of them is."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode("utf-8", "surrogatepass"))


def _split(host: str) -> tuple[str, str]:
    """The name and the port of a Host header: `[::1]:8000` has `::1` and `8000`."""
    name, _, port = host.rpartition(":") if host.rpartition(":")[2].isdigit() else (host, "", "")
    return name.strip("[]").lower(), port


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
