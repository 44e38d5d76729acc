"""The REST server of a worker: every listener on the same event loop, in a thread of its own.

The server listens from `start` on, long before the herder has read its topics; until then requests for connectors wait.
"""

from __future__ import annotations

import logging
import socket
import ssl
from dataclasses import dataclass

from twinlog.connect.rest.api import RestApi
from twinlog.connect.rest.app import admin_app, public_app
from twinlog.connect.rest.serving import BoundListener, ServerThread, bind, close, servers
from twinlog.settings.metrics import ListenerAddress

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tls:
    """The contexts of the https listeners: from `listeners.https.*` or `ssl.*`, and from `admin.listeners.https.*`.

    Each context says whether a client needs a certificate (`verify_mode`).
    """

    public: ssl.SSLContext | None = None
    admin: ssl.SSLContext | None = None


class RestServer:
    """Serves an Api; use as a context manager, or `start()` and `stop()`. May be started once."""

    def __init__(self, api: RestApi, tls: Tls | None = None) -> None:
        self._api = api
        self._tls = tls or Tls()
        self._public: list[BoundListener] = []
        self._admin: list[BoundListener] = []
        self._serving = ServerThread("rest-server")
        self._own_address = ""

    # -- life cycle

    def start(self) -> None:
        """Listen, and return once every address answers.

        Raises OSError that names the unavailable listener, and ValueError for an https listener that lacks a TLS
        context.
        """
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
        limits = self._api.limits
        found = [
            *servers(self._public, public_app(self._api), self._tls.public, limits),
            *servers(self._admin, admin_app(self._api), self._tls.admin, limits),
        ]
        if not self._serving.begin(found):
            self.stop()
            raise OSError("the REST API does not start; its log has the reason")
        _LOG.info("the REST API listens at %s and is known to others as %s", ", ".join(self.urls), self.advertised_url)
        if self._admin:
            _LOG.info("its part for administrators listens at %s", ", ".join(self.admin_urls))

    def stop(self) -> None:
        """Refuse new connections, give present requests a moment, and close."""
        self._serving.end()
        self._api.pools.close()
        close([*self._public, *self._admin])

    def __enter__(self) -> RestServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- addresses

    @property
    def urls(self) -> list[str]:
        """The addresses of the server, with their real ports, in the order of `listeners`."""
        return [str(bound.listener) for bound in self._public]

    @property
    def admin_urls(self) -> list[str]:
        """The addresses of `admin.listeners`, with their real ports."""
        return [str(bound.listener) for bound in self._admin]

    @property
    def advertised(self) -> ListenerAddress:
        """The listener by which other workers and clients call this worker: the worker's id is its host and port."""
        listeners = [bound.listener for bound in self._public]
        return self._api.settings.find_advertised(listeners, self._own_address)

    @property
    def advertised_url(self) -> str:
        """The advertised listener as a URL, with a final slash, as Connect's workers send their URLs to each other."""
        return f"{self.advertised}/"


def _own_address() -> str:
    """The address by which this machine is known, for a listener on every interface."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
