"""The REST server of a worker: every listener on one event loop, in a thread of its own.

It listens from `start` on, long before the herder knows anything; what the herder cannot answer yet it refuses itself.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from starlette.types import ASGIApp
from uvicorn import Config, Server

from twinlog.connect.rest.api import Api
from twinlog.connect.rest.app import admin_app, public_app
from twinlog.connect.rest.listening import Bound, bind, close
from twinlog.connect.rest.protocol import bounded
from twinlog.connect.rest.settings import Limits, Listener

_LOG = logging.getLogger(__name__)
_GRACE_S = 3.0
"""How long requests may go on once the server stops; then they are answered with 503."""
_START_S = 60.0


@dataclass(frozen=True, slots=True)
class Tls:
    """Contexts of the https listeners: those of `listeners.https.*` or `ssl.*`, and of `admin.listeners.https.*`.

    What a client must show, the context itself says (`verify_mode`).
    """

    public: ssl.SSLContext | None = None
    admin: ssl.SSLContext | None = None


class RestServer:
    """Serves an Api; use as a context manager, or `start()` and `stop()`. It cannot be started twice."""

    def __init__(self, api: Api, tls: Tls | None = None) -> None:
        self._api = api
        self._tls = tls or Tls()
        self._public: list[Bound] = []
        self._admin: list[Bound] = []
        self._servers: list[Server] = []
        self._thread = threading.Thread(target=self._serve, name="rest-server", daemon=True)
        self._ready = threading.Event()
        self._own_address = ""

    # -- life

    def start(self) -> None:
        """Listen, and return once every address answers. Raises OSError that names the listener which cannot be had,
        and ValueError for an https one without a TLS context."""
        settings = self._api.settings
        admin = settings.admin_listeners or ()
        for listeners, context in ((settings.listeners, self._tls.public), (admin, self._tls.admin)):
            if context is None and any(listener.tls for listener in listeners):
                raise ValueError("an https listener needs a key store: ssl.keystore.location, or listeners.https.ssl.*")
        self._public = bind(settings.listeners)
        try:
            self._admin = bind(admin)
        except OSError:
            close(self._public)
            raise
        self._own_address = _own_address()
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        # At its finest level it would log headers, and with them logins.
        logging.getLogger("uvicorn.asgi").setLevel(logging.INFO)
        self._servers = [
            *self._of(self._public, public_app(self._api), self._tls.public),
            *self._of(self._admin, admin_app(self._api), self._tls.admin),
        ]
        self._thread.start()
        self._ready.wait(_START_S)
        if not all(server.started for server in self._servers):
            self.stop()
            raise OSError("the REST API does not start; its log has the reason")
        _LOG.info("the REST API listens at %s and is known to others as %s", ", ".join(self.urls), self.advertised_url)
        if self._admin:
            _LOG.info("its part for administrators listens at %s", ", ".join(self.admin_urls))

    def stop(self) -> None:
        """Take no more connections, give requests that are under way a moment, and close."""
        for server in self._servers:
            server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        self._api.lanes.close()
        close([*self._public, *self._admin])

    def __enter__(self) -> RestServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- addresses

    @property
    def urls(self) -> list[str]:
        """Where it listens, with the ports it got, in the order of `listeners`."""
        return [str(bound.listener) for bound in self._public]

    @property
    def admin_urls(self) -> list[str]:
        """The same of `admin.listeners`."""
        return [str(bound.listener) for bound in self._admin]

    @property
    def advertised(self) -> Listener:
        """What other workers and clients call it by: the worker's id is its host and port."""
        listeners = [bound.listener for bound in self._public]
        return self._api.settings.advertised.over(listeners, self._own_address)

    @property
    def advertised_url(self) -> str:
        """The same as an address, with the slash that Connect's workers tell each other."""
        return f"{self.advertised}/"

    # -- the loop

    def _of(self, bound: Sequence[Bound], app: ASGIApp, tls: ssl.SSLContext | None) -> list[Server]:
        """A server for the listeners with TLS and one for those without, as far as there are any."""
        servers: list[Server] = []
        for secure in (False, True):
            sockets = [one.socket for one in bound if one.listener.tls == secure]
            if sockets:
                servers.append(_Listening(_config(app, tls if secure else None, self._api.settings.limits), sockets))
        return servers

    def _serve(self) -> None:
        try:
            asyncio.run(self._run())
        except Exception:
            _LOG.exception("the REST API has ended")
        finally:
            self._ready.set()

    async def _run(self) -> None:
        serving = [asyncio.ensure_future(server.serve()) for server in self._servers]
        while not all(server.started or task.done() for server, task in zip(self._servers, serving, strict=True)):
            await asyncio.sleep(0.005)
        self._ready.set()
        await asyncio.gather(*serving)


class _Listening(Server):
    """A server of sockets that are bound already."""

    def __init__(self, config: Config, sockets: list[socket.socket]) -> None:
        super().__init__(config)
        self._sockets = sockets

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        await super().serve(sockets or self._sockets)


def _config(app: ASGIApp, tls: ssl.SSLContext | None, limits: Limits) -> Config:
    own: Callable[[Config, Callable[[], ssl.SSLContext]], ssl.SSLContext] | None = None
    if tls is not None:
        context = tls

        def own(_: Config, __: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
            return context

    return Config(
        app,
        http=bounded(limits),
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ssl_context_factory=own,
        h11_max_incomplete_event_size=limits.header_bytes,
        timeout_keep_alive=max(1, round(limits.idle_s)),
        # It is given to asyncio, which takes parts of a second.
        timeout_graceful_shutdown=cast(int, _GRACE_S),
    )


def _own_address() -> str:
    """The address by which this machine is known, for a listener on every interface."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
