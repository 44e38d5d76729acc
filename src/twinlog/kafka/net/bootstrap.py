"""Reads the brokers of a cluster from the first bootstrap server that answers, also after all brokers have moved.

kafka-python asks the servers in sequence, and waits for a hanging server as long as a connection may take. This wait is
ten seconds, which is all the time of most callers. The wait is even longer for a server that hangs after the connect.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafka.errors import IncompatibleBrokerVersion, KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafka.net.wakeup_notifier import WakeupNotifier

from twinlog.kafka.net.transport import ClosedHereError

log = logging.getLogger(__name__)

NEXT_S = 1.0
"""The seconds for which a server is asked alone; then the next server is asked, too."""


@dataclass(slots=True)
class _PendingServer:
    """A server that is asked: its connection, and after the connect the future of its brokers."""

    connection: Any
    answer: Any = None


class Bootstrap:
    """A bootstrap of `connections`; `run` returns the server that answered, once its brokers are known.

    With `once` each server is asked once; otherwise again and again, up to the deadline in monotonic seconds.
    """

    def __init__(self, connections: Any, deadline: float | None, *, once: bool = False) -> None:
        self._connections = connections
        self._deadline = deadline
        self._once = once
        self._wake = WakeupNotifier(connections._net)
        self._asked: dict[Any, _PendingServer] = {}
        """The asked servers by their ids, in the order of their requests."""
        self._tried: set[Any] = set()

    async def run(self, servers: Sequence[Any]) -> Any:
        """Ask the servers until a server answers.

        Raises KafkaTimeoutError at the deadline, or when all servers were asked once. Raises at once an error that
        other servers cannot fix.
        """
        connections = self._connections
        try:
            while not connections.closed:
                for server in servers:
                    if server.node_id in self._asked and self._answered(server):
                        return server
                # The deadline is checked after the answers: a server that has connected by then was asked, and its
                # error is known.
                if self._left_s() <= 0:
                    break
                self._ask_one_more(servers)
                if self._once and not self._asked:
                    break
                delays = (connections.connection_delay(server.node_id) for server in servers)
                wait_s = min(NEXT_S, self._left_s(), *(delay for delay in delays if delay > 0))
                await self._wake(max(0.0, wait_s))
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
            if node in self._asked or (self._once and node in self._tried):
                continue
            self._tried.add(node)
            if connections.connection_delay(node) > 0:
                continue
            timeout_ms = None if self._deadline is None else self._left_s() * 1000
            try:
                connection = connections.get_connection(
                    node,
                    timeout_ms=timeout_ms,
                    pop_on_close=False,
                    refresh_metadata_on_err=False,
                    reset_backoff_on_connect=False,
                )
            except KafkaError:
                # The server refused a login a moment ago.
                if not self._once:
                    raise
                continue
            self._asked[node] = _PendingServer(connection)
            connection.init_future.add_both(lambda _: self._wake.notify())
            return

    def _answered(self, server: Any) -> bool:
        """Whether a server is connected and has returned the brokers."""
        node, asked, connections = server.node_id, self._asked[server.node_id], self._connections
        outcome = asked.connection.init_future
        if not outcome.is_done:
            return False
        if isinstance(outcome.exception, IncompatibleBrokerVersion) and not self._once:
            raise outcome.exception
        try:
            if outcome.exception is not None:
                raise outcome.exception
            if asked.answer is None:
                asked.answer = asked.connection.send_request(connections.cluster.metadata_request())
                asked.answer.add_both(lambda _: self._wake.notify())
            if not asked.answer.is_done:
                return False
            # A controller lacks metadata for clients; another server may have metadata.
            if asked.answer.exception is not None:
                raise asked.answer.exception
            if not asked.answer.value.brokers:
                raise KafkaConnectionError("its metadata names no broker")
            connections.cluster.update_metadata(asked.answer.value)
        except Exception as error:
            # Any error, as for an invalid host name: another server may answer. The error is reported after the last
            # server; a warning for each try would be too many.
            log.debug("bootstrap server %s:%s: %s", server.host, server.port, error)
            connections._note_failure(f"{server.host}:{server.port}", error)
            self._drop(server)
            connections.update_backoff(node)
            return False
        for broker in (server, *asked.answer.value.brokers):
            connections.reset_backoff(broker.node_id)
        return True

    def _drop(self, server: Any) -> None:
        asked = self._asked.pop(server.node_id)
        self._connections._conns.pop(server.node_id, None)
        error: Exception | None = None
        if not asked.connection.init_future.is_done or (asked.answer is not None and not asked.answer.is_done):
            error = ClosedHereError("another bootstrap server has answered")
            if self._left_s() <= 0:
                error = KafkaTimeoutError("Connection timed out")
                self._connections._note_failure(f"{server.host}:{server.port}", error)
        asked.connection.close(error)
