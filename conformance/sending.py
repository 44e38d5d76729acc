"""Sends one request as it stands and reads the whole answer: no redirects, no retries."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from conformance.call import NO_BODY, Json, Response

TIMEOUT_S = 120.0
"""Connect itself gives up after 90."""

HEADERS = (
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Headers",
    "Access-Control-Allow-Methods",
    "Access-Control-Allow-Origin",
    "Access-Control-Max-Age",
    "Allow",
    "Content-Type",
    "Location",
    "WWW-Authenticate",
)
"""What clients read, and whatever begins with X-."""

SETS = frozenset({"Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Allow"})
"""Lists without an order."""


def send(
    url: str,
    method: str,
    path: str,
    body: Json = NO_BODY,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Response:
    """Raises OSError or http.client.HTTPException where there is no answer.

    A body that is not bytes is sent as JSON, with the content type that belongs to it unless `headers` has another; an
    empty one there sends none.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 0
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=tls)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    wanted = {"Accept": "application/json"}
    payload: bytes | None = None
    if body is not NO_BODY:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        wanted["Content-Type"] = "application/json"
    wanted = {name: value for name, value in (wanted | dict(headers or {})).items() if value}
    try:
        connection.request(method, path, payload, wanted)
        response = connection.getresponse()
        return _read(response)
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse) -> Response:
    payload = response.read()
    found: dict[str, str] = {}
    for name, value in response.getheaders():
        known = next((one for one in HEADERS if one.lower() == name.lower()), None)
        if known or name.lower().startswith("x-"):
            key = known or name.title()
            found[key] = f"{found[key]}, {value}" if key in found else value
    for name in SETS & found.keys():
        found[name] = ",".join(sorted(one.strip() for one in found[name].split(",")))
    return Response(response.status, found, _body(payload))


def _body(payload: bytes) -> Json:
    """Connect declares no content type where a path is unknown, and its body is JSON nevertheless."""
    text = payload.decode("utf-8", "replace")
    if text[:1] in ("{", "["):
        with suppress(ValueError):
            return json.loads(text)
    return text or None
