"""Quotas of a test cluster: its brokers throttle clients by them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.wait import wait_for
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop
from twinlog.settings.client import ClientSettings

DEADLINE_S = 30.0
_EXACT_NAME, _DEFAULT_NAME = 0, 1

Rate = Literal["consumer_byte_rate", "producer_byte_rate", "request_percentage", "controller_mutation_rate"]


def set_quota(cluster: KafkaCluster, client_id: str | None, rate: Rate, limit: float | None) -> None:
    """Set a quota of a client id (None: of each that has none of its own), in bytes/s, or remove it.

    Returns when the broker that is asked has heard of it from its controller.
    """
    kind = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        entries=[
            kind(
                entity=[kind.EntityData(entity_type="client-id", entity_name=client_id)],
                ops=[kind.OpData(key=rate, value=limit or 0.0, remove=limit is None)],
            )
        ],
        validate_only=False,
    )
    component = DescribeClientQuotasRequest.ComponentData
    match = _DEFAULT_NAME if client_id is None else _EXACT_NAME
    look = DescribeClientQuotasRequest(
        components=[component(entity_type="client-id", match_type=match, match=client_id)], strict=True
    )
    loop = Loop()

    def known() -> bool:
        found = loop.run(client.send_request, look)
        values = {value.key: value.value for entry in found.entries or () for value in entry.values}
        return bool(found.error_code == 0 and values.get(rate) == limit)

    client = ClusterClient(loop, cluster.name, ClientSettings(tuple(cluster.bootstrap.split(","))))
    try:
        loop.run(client.connect)
        response = loop.run(client.send_request, request)
        if codes := [entry.error_code for entry in response.entries if entry.error_code]:
            raise HarnessError(f"cluster {cluster.name} refused a quota: {codes}")
        wait_for(known, DEADLINE_S, f"{cluster.name} has the quota {rate}={limit}")
    finally:
        client.close()
        loop.close()


@contextmanager
def quota(cluster: KafkaCluster, client_id: str | None, rate: Rate, limit: float) -> Iterator[None]:
    """A quota for a while."""
    set_quota(cluster, client_id, rate, limit)
    try:
        yield
    finally:
        set_quota(cluster, client_id, rate, None)
