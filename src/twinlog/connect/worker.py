"""A Connect worker: the REST server, the herder behind it, and the connection to its own cluster."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial

from twinlog.clock import SYSTEM, wall_ms
from twinlog.config.connector import ConnectorFile
from twinlog.config.worker import WorkerConfig
from twinlog.connect.group.group import JoinGroup, StandaloneGroup, WorkerGroup
from twinlog.connect.group.state import Changed, GroupState, state_alone, state_in_topics
from twinlog.connect.herder import Herder
from twinlog.connect.rest.api import RestApi
from twinlog.connect.rest.forward import Forwarder
from twinlog.connect.rest.levels import Levels
from twinlog.connect.rest.metrics import metrics_server
from twinlog.connect.rest.server import RestServer, Tls
from twinlog.connect.rest.users import Users
from twinlog.connect.storage.offset_file import OffsetFile
from twinlog.connect.storage.standalone_offsets import FileOffsets
from twinlog.errors import RequestError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.settings.client import ClientSettings
from twinlog.settings.tls import server_context, tls_context
from twinlog.settings.worker import GroupSettings, RestSettings, WorkerSettings
from twinlog.worker.connectors.model import INITIAL_STATES, Config, ConnectorName
from twinlog.worker.metrics.exposition import Pages
from twinlog.worker.spark_flows import SparkOptions

log = logging.getLogger(__name__)

CLUSTER = "worker"
"""The name of the worker's own cluster in messages."""

LOOK_S = 0.1


class Worker:
    """A worker; `start` returns once its REST API answers, `stop` ends it in order.

    The constructor raises ConfigError for a standalone worker whose offset file is unavailable.
    """

    def __init__(
        self,
        config: WorkerConfig,
        options: SparkOptions,
        users: Users | None = None,
        crashed: Callable[[], None] = lambda: None,
    ) -> None:
        """`crashed()` is called when the worker ends by itself; `failure` is the reason."""
        levels = self.levels = Levels()
        self._admin = ClusterAdmin(CLUSTER, config.settings.client)
        self._offsets = self._file_offsets(config.settings)
        group = config.settings.group
        self._exactly_once = config.settings.exactly_once != "disabled"
        self._algorithm = "" if group is None else group.signature_algorithm
        own = config.settings.rest
        # The certificates of the worker's own https listeners check the certificates of other workers (Kafka class
        # SSLUtils).
        forwarder = self._forwarder = Forwarder(None if own.https is None else tls_context(own.https))
        self.herder = Herder(
            config,
            partial(self._make_state, group),
            StandaloneGroup if group is None else self._join(config.settings.client, group),
            self._admin,
            options,
            lambda logger, level: levels.set_level(logger, level, wall_ms(SYSTEM)),
            may_begin=self._offsets.may_begin if self._offsets else lambda flow: True,
            ask_leader=self._ask_leader,
            crashed=crashed,
        )
        pages = Pages(self.herder.metrics(SYSTEM).measure, config.settings.metrics.names)
        own_metrics = config.settings.metrics
        self._metrics = metrics_server(own_metrics, pages, self.herder.health) if own_metrics.listeners else None
        api = RestApi(
            self.herder,
            own,
            SYSTEM,
            users,
            forwarder,
            levels=levels,
            metrics=pages,
            signatures=config.settings.signatures,
            topic_tracking=config.settings.topic_tracking,
            topic_tracking_reset=config.settings.topic_tracking_reset,
            takeover_s=0.0 if group is None else group.takeover_s,
        )
        self.server = RestServer(api, rest_tls(own))

    def _join(self, client: ClientSettings, group: GroupSettings) -> JoinGroup:
        # The group has connections of its own, so that a heartbeat never waits behind another request.
        return partial(WorkerGroup, ClusterAdmin(CLUSTER, client), group)

    def _file_offsets(self, worker: WorkerSettings) -> FileOffsets | None:
        if worker.offset_file is None:
            return None
        flush_s = worker.offset_flush_interval_ms / 1000
        return FileOffsets(OffsetFile(worker.offset_file), lambda: self.herder.flows(), flush_s)  # noqa: PLW0108 - made later

    def _make_state(self, group: GroupSettings | None, changed: Changed) -> GroupState:
        if group is not None:
            return state_in_topics(self._admin, group, changed, exactly_once=self._exactly_once)
        assert self._offsets is not None
        return state_alone(self._offsets, changed)

    @property
    def failure(self) -> str | None:
        """Why the worker ended by itself; None otherwise."""
        return self.herder.failure

    def start(self) -> None:
        """Listen first, so that requests are answered from the first second on.

        Raises OSError for an address in use.
        """
        self.server.start()
        if self._metrics is not None:
            try:
                self._metrics.start()
            except OSError:
                self.server.stop()
                raise
        if self._offsets is not None:
            self._offsets.start()
        known = self.server.advertised
        self.herder.start(self.server.advertised_url, f"{known.host}:{known.port}")

    def create(self, connectors: Sequence[ConnectorFile], asked: threading.Event) -> None:
        """Create connectors in their order once the worker has started; a stop that is `asked` for ends the wait.

        Raises RequestError for a refused connector, with the connector's name.
        """
        while not self.herder.started:
            if not connectors or SYSTEM.wait(asked, LOOK_S):
                return
        for one in connectors:
            initial = None if one.initial_state is None else INITIAL_STATES[one.initial_state]
            try:
                self.herder.put(ConnectorName(one.name), one.config, initial=initial, replace=False)
            except RequestError as error:
                text = f"connector {one.name} cannot be created: {error}"
                raise RequestError(error.status, text, message_id=error.message_id) from None
            log.info("connector %s was created", one.name)

    def _ask_leader(self, leader_url: str, name: ConnectorName, configs: Sequence[Config]) -> None:
        self._forwarder.put_task_configs(leader_url, name, configs, self.herder.session_key(), self._algorithm)

    def stop(self) -> None:
        """End the connectors here, leave the group, and close the REST API."""
        self.herder.stop()
        if self._offsets is not None:
            self._offsets.stop()
        self.server.stop()
        if self._metrics is not None:
            self._metrics.stop()
        self._admin.close()


def rest_tls(own: RestSettings) -> Tls:
    """The contexts of the https listeners. Raises ssl.SSLError for invalid certificates."""
    return Tls(
        None if own.https is None else server_context(own.https, own.https_client_auth),
        None if own.admin_https is None else server_context(own.admin_https, own.admin_https_client_auth),
    )
