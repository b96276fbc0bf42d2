"""Access control: requests that may not see the lake are refused before a page or the lake is involved.

| refused request | status |
|---|---|
| the Host header names another server, for example after DNS rebinding | 403 |
| the Origin header or Sec-Fetch-Site names another site | 403 |
| the token is missing or wrong | 401 |
| a change that is authorized by the cookie, without the CSRF token | 403 |

A request whose URL contains the token is redirected to the same URL without it, and sets a cookie. The cookie and the
CSRF token are derived from the token, so neither reveals it. Programs send `Authorization: Bearer TOKEN`; browsers
never add that header on their own, so programs need no CSRF token.
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

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
CSRF_HEADER = "X-Partita-CSRF"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
_WILDCARD_HOSTS = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The token and the host that requests must have.

    `public_origin` is the origin of a proxy in front of this server, as `origin_from_url` returns it.
    """

    token: str
    host: str = "127.0.0.1"
    port: int = 0
    public_origin: str | None = None

    @property
    def is_secure(self) -> bool:
        """Whether browsers send the cookie only over TLS."""
        return self.public_origin is not None and self.public_origin.startswith("https:")

    @property
    def cookie_name(self) -> str:
        """The name of the cookie. It contains the port, because browsers share cookies between ports of a host."""
        return f"partita_{self.port}"

    @property
    def cookie_value(self) -> str:
        """The value of the cookie."""
        return self._derive_token("cookie")

    @property
    def csrf_token(self) -> str:
        """The token that a change needs if it is authorized by the cookie."""
        return self._derive_token("csrf")

    def _derive_token(self, purpose: str) -> str:
        return hmac.new(self.token.encode(), purpose.encode(), sha256).hexdigest()

    def is_own_host(self, host: str) -> bool:
        """Return whether a Host header names this server.

        A server that listens on all addresses accepts every IP address, because only names can be rebound. A proxy may
        send the Host header of the original request, or that of this server.
        """
        if self._is_public_host(host):
            return True
        name, port = _split_host(host)
        if self.port and port not in (str(self.port), *(("",) if self.port == 80 else ())):
            return False
        if self.host in _WILDCARD_HOSTS:
            return name in _LOOPBACK_HOSTS or name in _local_host_names() or _is_ip_address(name)
        return name in (_LOOPBACK_HOSTS if is_loopback(self.host) else (self.host.lower(),))

    def is_own_origin(self, origin: str, host: str) -> bool:
        """Return whether an Origin header names this server, for a request with this Host header."""
        host_origins = () if self._is_public_host(host) else (f"http://{host}", f"https://{host}")
        return origin in (self.public_origin, *host_origins)

    def _is_public_host(self, host: str) -> bool:
        return self.public_origin is not None and host.lower() == self.public_origin.partition("://")[2]


def origin_from_url(url: str) -> str:
    """Return the origin of the URL of a proxy. Raises `StatusError` if the URL has a path, a query or credentials."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    is_root = not (parts.path.strip("/") or parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or not is_root:
        raise StatusError(
            f"{url!r} is not a public URL; write one with a host and without a path, as in https://lake.example.com"
        )
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{name}" + ("" if port in (None, _DEFAULT_PORTS[parts.scheme]) else f":{port}")


_DEFAULT_PORTS = {"http": 80, "https": 443}


@cache
def _local_host_names() -> frozenset[str]:
    """Return the names of this machine; cached, because a lookup may involve a name server."""
    return frozenset({socket.gethostname().lower(), socket.getfqdn().lower()})


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached only from this machine."""
    return host.lower() == "localhost" or (_is_ip_address(host) and ipaddress.ip_address(host).is_loopback)


@dataclass(frozen=True, slots=True)
class AccessMiddleware:
    """ASGI middleware that refuses requests which the policy does not allow, and adds headers to every response."""

    app: ASGIApp
    policy: AccessPolicy
    headers: dict[str, str] = field(default_factory=lambda: dict(SECURITY_HEADERS))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, as ASGI defines it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self.headers)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self.app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self.policy.is_own_host(headers.get("host", "")):
            return _refusal_response(
                scope, 403, "the request names another host; open the address that `partita ui` printed"
            )
        if _is_cross_origin(headers, self.policy):
            return _refusal_response(scope, 403, "pages of other sites can't use this server")
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        if "token" in query and scope["method"] == "GET":
            return self._login_response(scope, query["token"])
        scheme, _, bearer_token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _is_same_secret(bearer_token, self.policy.token):
            return None
        cookie = cookie_parser(headers.get("cookie", "")).get(self.policy.cookie_name, "")
        if not _is_same_secret(cookie, self.policy.cookie_value):
            return _refusal_response(scope, 401, "the token is missing; open the address that `partita ui` printed")
        if scope["method"] not in _SAFE_METHODS and not _is_same_secret(
            headers.get(CSRF_HEADER, ""), self.policy.csrf_token
        ):
            return _refusal_response(
                scope, 403, f"a change needs the header {CSRF_HEADER}, which the pages of this server send"
            )
        return None

    def _login_response(self, scope: Scope, token: str) -> Response:
        """Redirect to the same URL without the token, and set the cookie."""
        if not _is_same_secret(token, self.policy.token):
            return _refusal_response(scope, 401, "the token is wrong; open the address that `partita ui` printed")
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        rest = urlencode([(name, value) for name, value in pairs if name != "token"])
        # A path that begins with two slashes would redirect to another host.
        path = "/" + scope["path"].lstrip("/\\")
        response = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
        response.set_cookie(
            self.policy.cookie_name, self.policy.cookie_value, httponly=True, samesite="strict", path="/",
            secure=self.policy.is_secure,
        )  # fmt: skip
        return response


def _is_cross_origin(headers: Headers, policy: AccessPolicy) -> bool:
    """Return whether a page of another origin sent the request.

    Links from other sites may be followed: SameSite=Strict keeps the browser from sending the cookie with them.
    """
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    # A page that sends no referrer sends the origin "null"; then Sec-Fetch-Site decides.
    is_hidden = origin == "null" and site == "same-origin"
    if origin is not None and not is_hidden and not policy.is_own_origin(origin, headers.get("host", "")):
        return True
    return site not in ("none", "same-origin") and headers.get("sec-fetch-mode") != "navigate"


def _refusal_response(scope: Scope, code: int, reason: str) -> Response:
    headers = {"WWW-Authenticate": 'Bearer realm="partita"'} if code == 401 else {}
    if scope["path"].startswith("/api/"):
        return JSONResponse({"error": {"type": "Refused", "message": reason}}, code, headers)
    return PlainTextResponse(f"{code}: {reason}\n", code, headers)


def _is_same_secret(text: str, secret: str) -> bool:
    """Compare two texts in a time that does not depend on their common prefix."""
    return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), secret.encode("utf-8", "surrogatepass"))


def _split_host(host: str) -> tuple[str, str]:
    """Return the name and the port of a Host header: `::1` and `8000` for `[::1]:8000`."""
    name, _, port = host.rpartition(":") if host.rpartition(":")[2].isdigit() else (host, "", "")
    return name.strip("[]").lower(), port


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
