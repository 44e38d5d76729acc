"""The driver's side of the bridge: starts its process, and has it copy the flows that lack a task of Spark."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterable
from multiprocessing.connection import Connection

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.kafka.retry import BRIDGE_START
from twinlog.lease.channel import LeaseTicket
from twinlog.lease.lease_server import LeaseServer
from twinlog.worker.flow.flow import FlowRunner
from twinlog.worker.retrying import RetryDelay

log = logging.getLogger(__name__)

AGAIN_S = 2.0
"""How long a share waits for the copier of the bridge before the bridge is asked again."""

END_S = 2.0


class BridgeProcess:
    """The process of the bridge. Raises OSError if the machine refuses it."""

    def __init__(self) -> None:
        given, own = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "twinlog.spark.bridge", str(given)],
                stdin=subprocess.DEVNULL,
                pass_fds=(given,),
                # Ctrl-C is for the driver, which ends its children in order.
                process_group=0,
            )
        except OSError:
            os.close(own)
            raise
        finally:
            os.close(given)
        # A process that hangs must not hold up the thread of all flows.
        os.set_blocking(own, False)
        self._line = Connection(own, readable=False)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process; None while it runs."""
        return self._process.poll()

    def send_ticket(self, ticket: LeaseTicket) -> None:
        """Have the process claim a share. Raises OSError when the process has ended, or takes no more tickets."""
        self._line.send(ticket.pack())

    def kill(self) -> None:
        """End the process at once: its copiers lose their partitions."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End the process; its copiers have released their partitions, or lose them."""
        with contextlib.suppress(OSError):
            self._line.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        self._process.kill()
        self._process.wait()


class Bridge:
    """Copies the flows that lack a task; used by the thread that looks after all flows."""

    def __init__(self, *, wanted: bool = True, clock: Clock = SYSTEM) -> None:
        self._wanted = wanted
        self._clock = clock
        self._process: BridgeProcess | None = None
        self._delay = RetryDelay(
            "the bridge", clock, what="it cannot run yet, flows wait for Spark", policy=BRIDGE_START
        )
        self._asked: dict[tuple[str, int, int], float] = {}
        """When the bridge was asked for a share: flow, lease and number of the share."""
        self._bridged: set[str] = set()

    def start(self) -> None:
        """Start the process ahead of its work."""
        if self._wanted and self._process is None and self._delay.is_due:
            try:
                self._process = BridgeProcess()
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
        for flow in flows:
            if flow.ready.is_set() and not flow.ended:
                self._poll_flow(flow, lease_server)

    def _poll_flow(self, flow: FlowRunner, lease_server: LeaseServer) -> None:
        leases, settings = flow.leases, flow.changes.copiers
        self._log(flow)
        transform = settings.transform
        if transform is not None and transform.sql:
            # The JVM that evaluates SQL takes as long to start as Spark.
            return
        now, lease = self._clock.monotonic(), leases.lease
        for share in leases.left_without_tasks:
            if now - self._asked.get((settings.name, lease, share), LONG_AGO) < AGAIN_S:
                continue
            self._asked = {key: at for key, at in self._asked.items() if now - at < AGAIN_S}
            self._asked[settings.name, lease, share] = now
            self.start()
            if self._process is not None:
                try:
                    self._process.send_ticket(LeaseTicket.of(settings, lease_server.address.here, lease, share))
                except OSError as error:
                    self._delay.set_failure(error)
                    self._process.kill()
                    self._process = None

    def _log(self, flow: FlowRunner) -> None:
        name, leases = flow.changes.copiers.name, flow.leases
        if leases.bridged and name not in self._bridged:
            self._bridged.add(name)
            self._delay.clear_delay()
            log.info("%s: the bridge copies until Spark has a task for the flow", name)
        elif name in self._bridged and not leases.bridged and not leases.unclaimed:
            self._bridged.discard(name)
            log.info("%s: Spark's tasks copy now", name)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None
