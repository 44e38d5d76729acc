"""Reads the brokers of a cluster from the first bootstrap server that answers.

kafka-python asks one after the other, and waits for a server that hangs as long as a connection may take to be made:
ten seconds, which is all that most callers have.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from typing import Any

from kafka.errors import IncompatibleBrokerVersion, KafkaTimeoutError

from twinlog.kafka.net.transport import ClosedHereError

log = logging.getLogger(__name__)

NEXT_S = 1.0
"""So long a server is asked alone; then the next one is asked, too."""


class Bootstrap:
    """One bootstrap of `connections`; `run` returns the server that has answered, once its brokers are known."""

    def __init__(self, connections: Any, deadline: float | None) -> None:
        self._connections = connections
        self._deadline = deadline
        self._asked: dict[Any, Any] = {}
        """Connections by the ids of servers, in the order in which they were begun."""

    async def run(self, servers: Sequence[Any]) -> Any:
        """Raises KafkaTimeoutError at the deadline, and at once what no other server can mend."""
        connections = self._connections
        try:
            while not connections.closed and self._left_s() > 0:
                for server in servers:
                    if server.node_id in self._asked and await self._answered(server):
                        return server
                self._ask_one_more(servers)
                delays = (connections.connection_delay(server.node_id) for server in servers)
                wait_s = min(NEXT_S, self._left_s(), *(delay for delay in delays if delay > 0))
                await connections._bootstrap_wakeup(max(0.0, wait_s))
        finally:
            for server in servers:
                if server.node_id in self._asked:
                    self._drop(server)
        raise KafkaTimeoutError(f"Unable to bootstrap from {connections.cluster.config['bootstrap_servers']}")

    def _left_s(self) -> float:
        return float("inf") if self._deadline is None else float(self._deadline - self._connections._net.now())

    def _ask_one_more(self, servers: Sequence[Any]) -> None:
        connections = self._connections
        for server in random.sample(servers, len(servers)):
            node = server.node_id
            if node in self._asked or connections.connection_delay(node) > 0:
                continue
            timeout_ms = None if self._deadline is None else self._left_s() * 1000
            connection = self._asked[node] = connections.get_connection(
                node,
                timeout_ms=timeout_ms,
                pop_on_close=False,
                refresh_metadata_on_err=False,
                reset_backoff_on_connect=False,
            )
            connection.init_future.add_both(lambda _: connections._bootstrap_wakeup.notify())
            return

    async def _answered(self, server: Any) -> bool:
        """Whether a server is connected and has returned the brokers."""
        node, connections = server.node_id, self._connections
        outcome = self._asked[node].init_future
        if not outcome.is_done:
            return False
        if isinstance(outcome.exception, IncompatibleBrokerVersion):
            raise outcome.exception
        try:
            if outcome.exception is not None:
                raise outcome.exception
            # A controller has no metadata for clients: another server may.
            await connections.cluster.refresh_metadata(node)
        except Exception as error:
            # Also what is no error of Kafka, as for a name that is none: another server may answer. Whoever gives up
            # reports why; until then each try would be a line.
            log.debug("bootstrap server %s:%s: %s", server.host, server.port, error)
        else:
            if connections.cluster.brokers():
                connections.reset_backoff(node)
                connections.cluster.start_refresh_loop()
                return True
        self._drop(server)
        connections.update_backoff(node)
        return False

    def _drop(self, server: Any) -> None:
        connection = self._asked.pop(server.node_id)
        self._connections._conns.pop(server.node_id, None)
        error: Exception | None = None
        if not connection.init_future.is_done:
            error = ClosedHereError("another bootstrap server has answered")
            if self._left_s() <= 0:
                error = KafkaTimeoutError("Connection timed out")
                self._connections._note_failure(f"{server.host}:{server.port}", error)
        connection.close(error)
