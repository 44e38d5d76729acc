"""The common parts of every resource: the herder, the threads for its calls, and the way to other workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from twinlog.clock import Clock
from twinlog.connect.herder import Herder
from twinlog.connect.rest import bodies, responses
from twinlog.connect.rest.forward import Forwarder
from twinlog.connect.rest.levels import Levels
from twinlog.connect.rest.metric_pages import MetricPages
from twinlog.connect.rest.protocol import Limits
from twinlog.connect.rest.thread_pools import ThreadPool, ThreadPools
from twinlog.connect.rest.users import Users
from twinlog.connectors.model import ConnectorName
from twinlog.errors import NotOwnerError, RequestError, UndeliveredError
from twinlog.settings.worker import RestSettings

T = TypeVar("T")

GONE_S = 15.0
"""Longer than a session and a rebalance, in seconds."""
AGAIN_S = 0.25
LOOK_S = (0.05, 0.5)
"""The first and the longest pause between two checks whether the worker has started."""


@dataclass(frozen=True, slots=True)
class RestApi:
    """The API of a worker.

    `users` is None without logins. `signatures` are the algorithms of signed requests between workers (KIP-507), None
    for unsigned requests. `topic_tracking` and `topic_tracking_reset` allow requests about the topics of a connector.
    """

    herder: Herder
    settings: RestSettings
    clock: Clock
    users: Users | None = None
    forwarder: Forwarder = field(default_factory=Forwarder)
    pools: ThreadPools = field(default_factory=ThreadPools)
    levels: Levels = field(default_factory=Levels)
    metrics: MetricPages | None = None
    signatures: tuple[str, ...] | None = ("HmacSHA256",)
    topic_tracking: bool = True
    topic_tracking_reset: bool = True
    limits: Limits = field(default_factory=Limits)

    async def wait_started(self) -> None:
        """Wait on the event loop until this worker has read the state of the connectors.

        An early request waits as in Connect, up to the time limit of every request.
        """
        pause_s = LOOK_S[0]
        while not self.herder.started:
            await asyncio.sleep(pause_s)
            pause_s = min(1.2 * pause_s, LOOK_S[1])

    async def read_state(self, call: Callable[[], T], shape: Callable[[T], Any]) -> Response:
        """Read as `read` does, after this worker has read the state of the connectors."""
        await self.wait_started()
        return await self.read(call, shape)

    async def read(self, call: Callable[[], T], shape: Callable[[T], Any], status: int = 200) -> Response:
        """Read from this worker's memory, and build the answer in the same thread."""
        return await self.pools.read.run(lambda: responses.json_response(shape(call()), status))

    async def forward_or_call(
        self,
        request: Request,
        call: Callable[[], T],
        respond: Callable[[T], Response],
        body: bytes = b"",
        pool: ThreadPool | None = None,
        *,
        starting: bool = False,
    ) -> Response:
        """Call a herder's method that may wait; forward the same request when another worker must answer.

        An unreachable worker is looked up again, until the group has noticed its end and another worker has replaced
        it. The same holds while the workers disagree during a rebalance. With `starting` a worker can answer before it
        has started.
        """
        if not starting:
            await self.wait_started()
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
        limits = self.limits
        return await bodies.read_body(request, limits.body_bytes, limits.body_s)

    async def json(self, request: Request) -> tuple[bytes, Any]:
        """The bytes of a request, and the parsed content. The request must declare a body as JSON."""
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
