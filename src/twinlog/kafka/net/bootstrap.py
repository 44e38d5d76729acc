"""Reads the brokers of a cluster from the first bootstrap server that answers, at first and whenever they have moved.

kafka-python asks one after the other, and waits for a server that hangs as long as a connection may take to be made:
ten seconds, which is all that most callers have. Where a server hangs once it is connected, it waits for longer still.
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
"""So long a server is asked alone; then the next one is asked, too."""


@dataclass(slots=True)
class _PendingServer:
    """A server that is asked: its connection, and once that is there the future of its brokers."""

    connection: Any
    answer: Any = None


class Bootstrap:
    """One bootstrap of `connections`; `run` returns the server that has answered, once its brokers are known.

    With `once` each server is asked once; without it again and again, up to the deadline in monotonic seconds.
    """

    def __init__(self, connections: Any, deadline: float | None, *, once: bool = False) -> None:
        self._connections = connections
        self._deadline = deadline
        self._once = once
        self._wake = WakeupNotifier(connections._net)
        self._asked: dict[Any, _PendingServer] = {}
        """By the ids of servers, in the order in which they were begun."""
        self._tried: set[Any] = set()

    async def run(self, servers: Sequence[Any]) -> Any:
        """Raises KafkaTimeoutError at the deadline, or when all were asked once, and at once what no other server can
        fix."""
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
                # A login that was refused there a moment ago.
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
            # A controller has no metadata for clients: another server may.
            if asked.answer.exception is not None:
                raise asked.answer.exception
            if not asked.answer.value.brokers:
                raise KafkaConnectionError("its metadata names no broker")
            connections.cluster.update_metadata(asked.answer.value)
        except Exception as error:
            # Any error, as for an invalid host name: another server may answer. It is reported when no server is left;
            # a warning for each try would be too many.
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
