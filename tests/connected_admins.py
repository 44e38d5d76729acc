"""Administrators of clusters that are connected during a block, and their logins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.cluster import KafkaCluster
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.net.loop import Loop
from twinlog.settings.client import ClientSettings
from twinlog.settings.flow import FlowSettings


def plain_login(cluster: KafkaCluster, user: str, *, password: str | None = None) -> ClientSettings:
    """The login of a user with SASL/PLAIN; the password of the cluster's user by default."""
    return ClientSettings(
        (cluster.sasl_bootstrap,),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username=user,
        sasl_password=cluster.users[user] if password is None else password,
    )


@contextmanager
def connected_admin(
    alias: str, settings: ClientSettings, timeout_s: float = 5.0, *, loop: Loop | None = None
) -> Iterator[ClusterAdmin]:
    """The administrator of a cluster, connected within `timeout_s` seconds."""
    admin = ClusterAdmin(alias, settings, loop)
    try:
        admin.connect(timeout_s)
        yield admin
    finally:
        admin.close()


@contextmanager
def connected_admins(settings: FlowSettings) -> Iterator[tuple[ClusterAdmin, ClusterAdmin]]:
    """The administrators of the source and the target of a flow."""
    with (
        connected_admin(settings.source, settings.source_admin.client) as source,
        connected_admin(settings.target, settings.target_admin.client) as target,
    ):
        yield source, target
