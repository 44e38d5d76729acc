"""Fences producers that tasks of a connector may still have, as the leader of a group does when it is asked to."""

from __future__ import annotations

from twinlog.driver.fencing import TransactionalIds
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.settings.flow import FlowSettings


def fence_zombies(settings: FlowSettings, producers: int, connect: Connect = ClusterAdmin) -> None:
    """Abort what producers of earlier tasks left open on the target, and let none of them write again (Kafka class
    Worker). The ids of the first so many tasks count in any case. Raises ClusterError, RefusedError."""
    target = connect(settings.target, settings.target_admin.client)
    try:
        target.connect()
        TransactionalIds(settings, target, lambda step, what: True).take_over(producers)
    finally:
        target.close()
