"""The driver's side of the bridge: starts its process, and has it copy the flows that lack a task of Spark."""

from __future__ import annotations

import contextlib
import logging
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.kafka.retry import BRIDGE_START
from twinlog.lease.channel import LeaseTicket
from twinlog.lease.lease_server import LeaseServer
from twinlog.settings.flow import LEAST_COPIER_MEMORY_BYTES, FlowSettings
from twinlog.worker.flow.flow import FlowRunner
from twinlog.worker.retrying import RetryDelay

log = logging.getLogger(__name__)

AGAIN_S = 2.0
"""How long a share waits for the copier of the bridge before the bridge is asked again."""

END_S = 2.0

HANGS_S = 10.0
"""A process that takes no ticket for this time is killed."""

MEMORY_BYTES = 268_435_456
"""Bytes of records that all copiers of the bridge may hold together, as far as each has its least."""


def may_bridge(settings: FlowSettings, *, local: bool) -> bool:
    """Whether the bridge may copy a flow.

    The JVM that evaluates SQL takes as long to start as Spark. The module of a function may exist on the executors of a
    cluster alone; beside `local` tasks it exists here, too.
    """
    transform = settings.transform
    return transform is None or not (transform.sql or (transform.function and not local))


def _pass_on_log(line: Connection) -> None:
    """Log the records of the bridge here, by the levels and in the format of this process, until the bridge ends."""
    with line:
        while True:
            try:
                record: logging.LogRecord = line.recv()
            except (EOFError, OSError):
                return
            logger = logging.getLogger(record.name)
            if logger.isEnabledFor(record.levelno):
                logger.handle(record)


class BridgeProcess:
    """The process of the bridge. Raises OSError if the machine refuses it."""

    def __init__(self) -> None:
        given, self._pipe = os.pipe()
        try:
            logged, written = os.pipe()
        except OSError:
            os.close(given)
            os.close(self._pipe)
            raise
        line = Connection(logged, writable=False)
        self._logging = threading.Thread(target=_pass_on_log, args=(line,), name="bridge log", daemon=True)
        try:
            self._logging.start()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "twinlog.spark.bridge", str(given), str(written)],
                stdin=subprocess.DEVNULL,
                pass_fds=(given, written),
                # Ctrl-C is for the driver, which ends its children in order.
                process_group=0,
            )
        except (OSError, RuntimeError) as error:
            # A RuntimeError means that the limit of threads is reached.
            os.close(self._pipe)
            raise OSError(str(error)) from error
        finally:
            os.close(given)
            os.close(written)
        # A process that hangs must not hold up the thread of all flows.
        os.set_blocking(self._pipe, False)
        self._unsent = bytearray()
        self._closed = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process; None while it runs."""
        return self._process.poll()

    @property
    def unsent_bytes(self) -> int:
        """Bytes of tickets that the process still has to take."""
        return len(self._unsent)

    def add_ticket(self, ticket: LeaseTicket) -> None:
        """Have the process claim a share, once it takes the ticket."""
        data = ForkingPickler.dumps(ticket.pack())
        # As `multiprocessing.connection.Connection.recv` reads it.
        self._unsent += struct.pack("!i", len(data)) + data

    def send_tickets(self) -> None:
        """Give the process as many tickets as it takes now. Raises OSError when the process has ended."""
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                del self._unsent[: os.write(self._pipe, self._unsent)]

    def kill(self) -> None:
        """End the process at once: its copiers lose their partitions."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End the process; its copiers have released their partitions, or lose them."""
        if not self._closed:
            self._closed = True
            os.close(self._pipe)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        self._process.kill()
        self._process.wait()
        # Its last records may be on their way.
        self._logging.join(END_S)


class Bridge:
    """Copies the flows that lack a task; used by the thread that looks after all flows."""

    def __init__(self, *, wanted: bool = True, local: bool = True, clock: Clock = SYSTEM) -> None:
        self._wanted = wanted
        self._local = local
        self._clock = clock
        self._process: BridgeProcess | None = None
        self._delay = RetryDelay(
            "the bridge",
            clock,
            what="it cannot run yet, flows wait for Spark",
            policy=BRIDGE_START,
            message_id="TW-SPARK-07",
        )
        self._asked: dict[tuple[str, int, int], float] = {}
        """When the bridge was asked for a share: flow, lease and number of the share."""
        self._bridged: set[str] = set()
        self._given: dict[str, FlowSettings] = {}
        """The settings of each flow's copiers, as the bridge got them last."""
        self._moved_at = LONG_AGO
        """When the process last took a ticket, or had none to take."""

    def start(self) -> None:
        """Start the process ahead of its work."""
        if self._wanted and self._process is None and self._delay.is_due:
            try:
                self._process = BridgeProcess()
                self._moved_at = self._clock.monotonic()
            except OSError as error:
                self._delay.set_failure(error)

    def poll_flows(self, flows: Iterable[FlowRunner], lease_server: LeaseServer) -> None:
        """Have the bridge copy the shares of flows that lack a task of Spark."""
        if not self._wanted:
            return
        if self._process is not None and (code := self._process.exit_code) is not None:
            self.close()
            if code:
                self._delay.set_failure(OSError(f"its process ended with {code}"))
        running = [flow for flow in flows if flow.ready.is_set() and not flow.ended]
        names = {flow.changes.copiers.name for flow in running}
        self._bridged &= names
        self._given = {name: settings for name, settings in self._given.items() if name in names}
        copiers = sum(flow.leases.current()[1] for flow in running)
        for flow in running:
            self._log(flow)
            settings = flow.changes.copiers
            self._follow_settings(flow, settings)
            if may_bridge(settings, local=self._local) and (shares := flow.leases.left_without_tasks):
                memory = max(
                    LEAST_COPIER_MEMORY_BYTES, min(settings.copier_memory_bytes, MEMORY_BYTES // max(1, copiers))
                )
                self._given[settings.name] = settings
                bridged = replace(settings, copier_memory_bytes=memory)
                self._ask(bridged, flow.leases.lease, shares, lease_server)
        self._send_tickets()

    def _follow_settings(self, flow: FlowRunner, settings: FlowSettings) -> None:
        """End the copiers of a flow whose settings changed; the bridge is asked again, with the new settings."""
        name, leases = settings.name, flow.leases
        if self._given.get(name, settings) == settings:
            return
        del self._given[name]
        if not leases.copied_by_tasks:
            log.info("%s: the copiers end, and begin with the new settings of %s", name, name)
            self._asked = {key: at for key, at in self._asked.items() if key[0] != name}
            leases.stop_bridge()
            # A ticket with the earlier settings may be on its way: it is for a lease that is over.
            leases.renew_lease()

    def _ask(self, settings: FlowSettings, lease: int, shares: Sequence[int], lease_server: LeaseServer) -> None:
        """Have the bridge claim these shares of a flow's lease."""
        now = self._clock.monotonic()
        for share in shares:
            if now - self._asked.get((settings.name, lease, share), LONG_AGO) < AGAIN_S:
                continue
            self._asked = {key: at for key, at in self._asked.items() if now - at < AGAIN_S}
            self.start()
            process = self._process
            # A process that is slow to take tickets would get the same tickets again.
            if process is not None and not (process.unsent_bytes and now - self._moved_at >= AGAIN_S):
                self._asked[settings.name, lease, share] = now
                process.add_ticket(LeaseTicket.of(settings, lease_server.first_address, lease, share))

    def _send_tickets(self) -> None:
        process, now = self._process, self._clock.monotonic()
        if process is None:
            return
        before = process.unsent_bytes
        try:
            process.send_tickets()
            if not process.unsent_bytes or process.unsent_bytes < before:
                self._moved_at = now
            elif now - self._moved_at >= HANGS_S:
                raise TimeoutError(f"its process took no ticket for {HANGS_S:.0f} s")
        except OSError as error:
            self._delay.set_failure(error)
            process.kill()
            self._process = None

    def _log(self, flow: FlowRunner) -> None:
        name, leases = flow.changes.copiers.name, flow.leases
        if leases.bridged and name not in self._bridged:
            self._bridged.add(name)
            self._delay.clear_delay()
            log.info("%s: the bridge copies until Spark has a task for the flow", name)
        elif name in self._bridged and not leases.bridged and leases.copied_by_tasks:
            self._bridged.discard(name)
            log.info("%s: Spark's tasks copy now", name)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None
