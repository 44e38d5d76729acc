"""A driver in a process of its own, without Spark: one flow and its lease server.

`python -m bench.flows.driver_process FILE SLOTS` prints the address of its lease server, then answers each
line of its input: `refresh` with the seconds that a look at all topics takes, `status` with the state of the flow.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path

from twinlog.config import load
from twinlog.lease.lease_server import LeaseServer
from twinlog.worker.flow.flow import FlowRunner


def main() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    file, slots = sys.argv[1:]
    # The way back is not enabled, and has heartbeats only.
    (settings,) = (flow for flow in load(Path(file)).flows if flow.enabled)
    runner = FlowRunner(settings, slots=int(slots), tasks=int(slots), until_caught_up=False, wake=lambda: None)
    lease_server = LeaseServer("127.0.0.1", {settings.name: runner.leases})
    began = time.monotonic()
    runner.start()
    runner.ready.wait()
    first_s = time.monotonic() - began
    address = lease_server.address
    facts = {"port": address.port, "secret": address.secret.hex(), "flow": settings.name, "lease": runner.leases.lease}
    _answer(first_refresh_s=first_s, **facts)
    for line in sys.stdin:
        began = time.monotonic()
        if line.strip() == "refresh":
            runner._topics.refresh()
            _answer(seconds=time.monotonic() - began)
        else:
            summary = runner.flow_status.summary()
            _answer(state=runner.state.value, reason=runner.reason, partitions=summary.partitions)
    runner.drop_copiers()


def _answer(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
