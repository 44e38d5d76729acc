"""A Connect worker: the REST server, the herder behind it, and the connection to its own cluster."""

from __future__ import annotations

import logging
from functools import partial

from twinlog.clock import SYSTEM, wall_ms
from twinlog.config.worker import WorkerConfig
from twinlog.connect.group.membership import WorkerGroup
from twinlog.connect.group.state import state_in_topics
from twinlog.connect.rest import settings as rest
from twinlog.connect.rest.api import Api
from twinlog.connect.rest.forward import Forwarder
from twinlog.connect.rest.headers import HeaderRule
from twinlog.connect.rest.levels import Levels
from twinlog.connect.rest.server import RestServer, Tls
from twinlog.connect.rest.users import Users
from twinlog.connect.worker_herder import WorkerHerder
from twinlog.driver.spark_flows import SparkOptions
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.settings import worker as settings
from twinlog.settings.tls import server_context, tls_context
from twinlog.settings.worker import Listener, WorkerSettings

log = logging.getLogger(__name__)

CLUSTER = "worker"
"""What the worker's own cluster is called in messages."""


class Worker:
    """One distributed worker; `start` returns once its REST API answers, `stop` ends it in order."""

    def __init__(self, config: WorkerConfig, options: SparkOptions, users: Users | None = None) -> None:
        group = config.settings.group
        if group is None:
            raise ValueError("a standalone worker keeps no state in topics")
        self._admin = ClusterAdmin(CLUSTER, config.settings.client)
        levels = Levels()
        self.herder = WorkerHerder(
            config,
            partial(state_in_topics, self._admin, group),
            partial(WorkerGroup, self._admin, group.group_id),
            self._admin,
            options,
            lambda logger, level: levels.set(logger, level, wall_ms(SYSTEM)),
        )
        own = config.settings.rest
        # What other workers show is checked with what our own https listeners are made of (Kafka class SSLUtils).
        forwarder = Forwarder(None if own.https is None else tls_context(own.https))
        api = Api(self.herder, rest_settings(config.settings), SYSTEM, users, forwarder, levels=levels)
        self._server = RestServer(api, rest_tls(own))

    @property
    def url(self) -> str:
        """Where the REST API is, as others know it."""
        return self._server.advertised_url

    def start(self) -> None:
        """Listen first: whoever asks is answered from the first second on. Raises OSError for an address in use."""
        self._server.start()
        known = self._server.advertised
        self.herder.start(self._server.advertised_url, f"{known.host}:{known.port}")

    def stop(self) -> None:
        """End what runs here, leave the group, and answer no more."""
        self.herder.stop()
        self._server.stop()
        self._admin.close()


def rest_settings(worker: WorkerSettings) -> rest.RestSettings:
    """The settings of the REST server out of those of the worker."""
    own, group = worker.rest, worker.group
    return rest.RestSettings(
        listeners=tuple(map(_listener, own.listeners)),
        admin_listeners=None if own.admin_listeners is None else tuple(map(_listener, own.admin_listeners)),
        advertised=rest.Advertised(own.advertised_host, own.advertised_port, own.advertised_listener),
        allowed_origins=own.allow_origin,
        allowed_methods=own.allow_methods,
        response_headers=tuple(_header(one) for one in own.response_headers),
        topic_tracking=worker.topic_tracking,
        topic_tracking_reset=worker.topic_tracking_reset,
        signatures=rest.Signatures(
            required=group is not None and group.protocol == "sessioned",
            algorithms=() if group is None else group.verification_algorithms,
        ),
    )


def rest_tls(own: settings.RestSettings) -> Tls:
    """The contexts of the https listeners. Raises ssl.SSLError for certificates that are no good."""
    return Tls(
        None if own.https is None else server_context(own.https, own.https_client_auth),
        None if own.admin_https is None else server_context(own.admin_https, own.admin_https_client_auth),
    )


def _header(rule: settings.HeaderRule) -> HeaderRule:
    return HeaderRule(rule.name, rule.value, rule.action in ("add", "addDate"), rule.action in ("setDate", "addDate"))


def _listener(listener: Listener) -> rest.Listener:
    return rest.Listener(listener.scheme == "https", listener.host, listener.port)
