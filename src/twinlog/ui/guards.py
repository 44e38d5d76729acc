"""The guards of the console: headers of answers, and checks of the hosts, origins and clients of requests.

Without a login the console serves only clients of this machine, and only under a name of this machine: otherwise a
page of another host could reach it through a name that the attacker's DNS gives the address 127.0.0.1.
"""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twinlog.errors import RequestError
from twinlog.settings.worker import is_loopback

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # With `no-referrer` a browser sends its forms with the origin "null", like forms of other sites (Fetch, 3.2).
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)


class SecurityHeaders:
    """Adds `HEADERS` to each answer of `app`; caches may store only answers with a rule of their own about caches."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                more = list(HEADERS)
                if not any(name.lower() == b"cache-control" for name, _ in given):
                    more.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*given, *more]}
            await send(message)

        await self._app(scope, receive, guarded)


def address_of(request: Request) -> str:
    """The address of the client, "-" for an unknown address."""
    return request.client.host if request.client is not None else "-"


def port_of(request: Request) -> int:
    """The port by which the browser calls the console, or the port of its protocol."""
    try:
        port = _parts_of(f"//{request.headers.get('host', '')}").port
    except ValueError:
        port = None
    return port or (443 if request.scope.get("scheme") == "https" else 80)


def require_own_machine(request: Request) -> None:
    """Raise RequestError 403 for a client of another machine, or a name of another host."""
    if not is_loopback(address_of(request)):
        raise RequestError(
            403, "Without a login the console serves only this machine: docs/console.md says how to add users."
        )
    called = request.headers.get("host", "")
    if not is_loopback(_parts_of(f"//{called}").hostname or ""):
        raise RequestError(403, f"The console is called by the name {called!r}; without a login call it by localhost.")


def require_same_origin(request: Request) -> None:
    """Raise RequestError 403 for a form that a page of another origin sent; browsers name the origin of each form."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    if site not in ("same-origin", "none"):
        raise RequestError(403, "The form came from a page of another site.")
    if origin is not None:
        host = _parts_of(origin).netloc.lower()
        if not host or host != request.headers.get("host", "").lower():
            raise RequestError(403, "The form came from a page of another origin.")


def _parts_of(url: str) -> SplitResult:
    """The parts of a URL; the parts of a malformed URL are empty."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
