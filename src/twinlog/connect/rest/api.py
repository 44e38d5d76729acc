"""What every resource has: the herder, the threads to ask it in, and the way to other workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from twinlog.clock import Clock
from twinlog.connect.herder import Herder
from twinlog.connect.model import ConnectorName
from twinlog.connect.rest import bodies, responses
from twinlog.connect.rest.forward import Forwarder
from twinlog.connect.rest.levels import Levels
from twinlog.connect.rest.metric_pages import MetricPages
from twinlog.connect.rest.settings import RestSettings
from twinlog.connect.rest.thread_pools import ThreadPool, ThreadPools
from twinlog.connect.rest.users import Users
from twinlog.errors import NotOwnerError, RequestError, UndeliveredError

T = TypeVar("T")

GONE_S = 15.0
"""Longer than a session and a rebalance."""
AGAIN_S = 0.25


@dataclass(frozen=True, slots=True)
class Api:
    """One worker's API. `users` is None without logins."""

    herder: Herder
    settings: RestSettings
    clock: Clock
    users: Users | None = None
    forwarder: Forwarder = field(default_factory=Forwarder)
    pools: ThreadPools = field(default_factory=ThreadPools)
    levels: Levels = field(default_factory=Levels)
    metrics: MetricPages | None = None

    async def read(self, call: Callable[[], T], shape: Callable[[T], Any], status: int = 200) -> Response:
        """Ask what this worker has in memory, and make the answer of it in the same thread."""
        return await self.pools.read.run(lambda: responses.json_response(shape(call()), status))

    async def change(
        self,
        request: Request,
        call: Callable[[], T],
        respond: Callable[[T], Response],
        body: bytes = b"",
        pool: ThreadPool | None = None,
    ) -> Response:
        """Ask for what may wait; where another worker must be asked, ask that one with the same request.

        One that has gone is asked for again, until the group has noticed and another one is in its place.
        """
        until = self.clock.monotonic() + GONE_S
        while True:
            try:
                return await (pool or self.pools.change).run(lambda: respond(call()))
            except NotOwnerError as owner:
                try:
                    return await self.pools.forward.run(self.forwarder.sending(request, owner, body))
                except UndeliveredError:
                    if self.clock.monotonic() >= until:
                        raise
            await asyncio.sleep(AGAIN_S)

    async def body(self, request: Request) -> bytes:
        """The bytes of a request, within the limits."""
        limits = self.settings.limits
        return await bodies.read_body(request, limits.body_bytes, limits.body_s)

    async def json(self, request: Request) -> tuple[bytes, Any]:
        """The same, and its content, parsed. A body must be declared as JSON."""
        body = await self.body(request)
        if body and "content-type" not in request.headers:
            raise RequestError(415, "HTTP 415 Unsupported Media Type")
        return body, bodies.parse(body)


def connector_of(request: Request) -> ConnectorName:
    """The connector that a path names."""
    return ConnectorName(request.path_params["connector"])


def flag(request: Request, name: str, default: bool = False) -> bool:
    """A query parameter as Java's Boolean: only `true`, in any case, is true."""
    value = request.query_params.get(name)
    return default if value is None else value.lower() == "true"
