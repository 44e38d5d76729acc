"""Server-sent events: a browser learns of new readings of the flows that its page shows, and then asks for the page.

The id of an event has the versions of the readings. A browser sends the id of its last event, or the versions of its
page, and so learns of readings before the connection and during a lost connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from twinlog.errors import RequestError
from twinlog.ui.live.flows import MOST_READINGS
from twinlog.ui.live.poller import LivePoller
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import ConsoleEndpoint, Visit

LOOK_S = 0.5
"""How often new readings are looked for."""

HEARTBEAT_S = 15.0
"""A comment after this time of silence keeps proxies from closing the connection."""

LONGEST_S = 600.0
"""A stream ends after this time; the browser connects again by itself."""

RECONNECT_MS = 3000


class EventStreams:
    """The streams of all browsers, a bounded number of them."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site
        self.open = 0

    def routes(self) -> list[Route]:
        return [Route(f"{self._site.root}/events", ConsoleEndpoint(self._site, self.stream, None, always_json=True))]

    async def stream(self, visit: Visit) -> Response:
        """Answer a stream of events about the readings that the URL names. Raises RequestError 404 and 503."""
        names = visit.request.query_params.getlist("live")
        if not names or len(names) > MOST_READINGS:
            raise RequestError(400, f"A stream is about 1 to {MOST_READINGS} readings.")
        self._pollers(names)
        if visit.request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if self.open >= self._site.settings.streams:
            raise RequestError(503, "Too many browsers get live figures; this page shows the figures of its load.")
        known = visit.request.headers.get("last-event-id", visit.query("version"))
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(visit, names, known), media_type="text/event-stream", headers=headers)

    def _pollers(self, names: Sequence[str]) -> list[LivePoller[Any]]:
        """The pollers of now: changed settings of a flow replace its pollers. Raises RequestError 404."""
        return [self._site.live.poller(name) for name in names]

    async def _events(self, visit: Visit, names: Sequence[str], known: str) -> AsyncIterator[bytes]:
        monotonic = self._site.clock.monotonic
        began = told_at = monotonic()
        self.open += 1
        try:
            yield f"retry: {RECONNECT_MS}\n\n".encode()
            while not self._site.closed and monotonic() - began < LONGEST_S:
                if visit.session.name and self._site.sessions.find(visit.session.name, uses=False) is None:
                    yield b"event: ended\ndata: {}\n\n"
                    return
                try:
                    pollers = self._pollers(names)
                except RequestError:
                    # The page asks for itself, and says what is unknown.
                    yield b"event: reading\ndata: {}\n\n"
                    return
                for poller in pollers:
                    poller.touch()
                versions = ".".join(str(poller.reading.version) for poller in pollers)
                if versions != known:
                    known, told_at = versions, monotonic()
                    data = json.dumps({"versions": versions})
                    yield f"id: {versions}\nevent: reading\ndata: {data}\n\n".encode()
                elif monotonic() - told_at >= HEARTBEAT_S:
                    told_at = monotonic()
                    yield b": alive\n\n"
                await asyncio.sleep(LOOK_S)
        finally:
            self.open -= 1
