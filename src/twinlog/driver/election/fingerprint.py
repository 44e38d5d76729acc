"""A short form of a flow's settings, sent with the group metadata, to find out whether two processes have the same.

Each setting is there by the name of its key with a hash of its value. Credentials and racks are left out: hosts may
have their own, and a hash of a short password can be guessed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from typing import Any

from twinlog.settings.flow import (
    AdminSettings,
    ClientSettings,
    ConsumerSettings,
    CustomClass,
    FlowSettings,
    ProducerSettings,
)

Fingerprint = Mapping[str, str]
"""Hash of a value by the name of its key."""

_LEFT_OUT = frozenset(
    {"source", "target", "connector_name", "worker_group_id", "client_id", "sasl_username", "client_rack"}
)

_KEYS = {
    "separator": "replication.policy.separator",
    "internal_separator_follows": "replication.policy.internal.topic.separator.enabled",
    "policy": "replication.policy.class",
    "policy_class": "replication.policy.class",
    "gap_policy": "twinlog.gap.policy",
    "renamed_topic_policy": "twinlog.renamed.topic.policy",
    "oversized_record_policy": "twinlog.oversized.record.policy",
    "lease_seconds": "twinlog.lease.seconds",
    "position_interval_ms": "twinlog.position.interval.ms",
    "copier_memory_bytes": "twinlog.copier.memory.bytes",
    "emit_offset_syncs": "emit.offset-syncs.enabled",
    "offset_syncs_location": "offset-syncs.topic.location",
    "offset_syncs_replication_factor": "offset-syncs.topic.replication.factor",
    "checkpoints_replication_factor": "checkpoints.topic.replication.factor",
    "heartbeats_replication_factor": "heartbeats.topic.replication.factor",
    "alter_configs": "use.incremental.alter.configs",
    "earlier_positions_topic": "offset.storage.topic",
    "exactly_once": "exactly.once.source.support",
    "transaction_interval_ms": "transaction.boundary.interval.ms",
    "compression_level": "compression.type",
    "max_in_flight": "max.in.flight.requests.per.connection",
    "merge_batch_bytes": "batch.size",
    "connection_setup_timeout_ms": "socket.connection.setup.timeout.ms",
    "connection_setup_timeout_max_ms": "socket.connection.setup.timeout.max.ms",
    "canonical_bootstrap": "client.dns.lookup",
    "rebootstrap": "metadata.recovery.strategy",
    "rebootstrap_trigger_ms": "metadata.recovery.rebootstrap.trigger.ms",
}
"""Keys of fields that are not spelled like them."""

_NO_KEYS = frozenset({("consumer", "retries"), ("producer", "default_api_timeout_ms")})
"""Fields of a client that its role has no key for."""

_OF_THE_CLUSTER = ("bootstrap.", "security.", "sasl.", "ssl.")
"""Keys of a client that are written for the whole cluster."""


def fingerprint(settings: FlowSettings) -> dict[str, str]:
    """The flow's settings by key, each as the first eight digits of a hash of its value.

    Keys of clients carry their prefix, as in `east.consumer.isolation.level`.
    """
    values: dict[str, list[str]] = {}
    for key, value in _flow(settings):
        values.setdefault(key, []).append(repr(value))
    return {key: hashlib.sha256("\n".join(found).encode()).hexdigest()[:8] for key, found in values.items()}


def differing(one: Fingerprint, other: Fingerprint) -> tuple[str, ...]:
    """The keys in which two processes differ, sorted; those that only one of them has count as well."""
    return tuple(sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key)))


def _flow(settings: FlowSettings) -> Iterator[tuple[str, Any]]:
    roles = {
        "consumer": (settings.source, "consumer"),
        "producer": (settings.target, "producer"),
        "source_admin": (settings.source, "admin"),
        "target_admin": (settings.target, "admin"),
    }
    for own in _plain_fields(settings):
        value = getattr(settings, own.name)
        if isinstance(value, ConsumerSettings | ProducerSettings | AdminSettings):
            yield from _client(value, *roles[own.name])
        else:
            # Where the class is written may well differ.
            yield _key(own.name), value.path if isinstance(value, CustomClass) else value


def _client(settings: Any, alias: str, role: str) -> Iterator[tuple[str, Any]]:
    for own in _plain_fields(settings):
        value = getattr(settings, own.name)
        if isinstance(value, ClientSettings):
            yield from _client(value, alias, role)
            continue
        if (role, own.name) in _NO_KEYS:
            continue
        key = _key(own.name)
        yield f"{alias}.{key}" if key.startswith(_OF_THE_CLUSTER) else f"{alias}.{role}.{key}", value


def _plain_fields(settings: Any) -> list[Field[Any]]:
    """Fields that may be shown and may be compared; what must not be printed has no place in a repr either."""
    return [own for own in fields(settings) if own.repr and own.name not in _LEFT_OUT]


def _key(name: str) -> str:
    if name in _KEYS:
        return _KEYS[name]
    return name.replace("_", ".") if not name.endswith("_interval_s") else name[:-2].replace("_", ".") + ".seconds"
