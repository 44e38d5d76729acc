"""A cluster of three racks, of which two brokers may be killed."""

from __future__ import annotations

from harness.cluster import KafkaCluster


class RackedCluster(KafkaCluster):
    """Three brokers, each in a rack of its own. Clients begin at node 1, which stays."""

    def __init__(self, name: str) -> None:
        quick = {"broker.session.timeout.ms": "2000"}
        super().__init__(name, 3, racks=True, sasl=False, heap="256m", config=quick)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.brokers[1].ports.plaintext}"
