"""The changes of a file that a running process takes over: keys that act at once, and keys that need a restart.

Every key that works is in a table below, or is a setting of clients, of clusters or of security; a test checks that.
MirrorMaker 2 reads its file once, and needs a restart for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType

from twinlog.config.keys.connector import OLD_NAMES
from twinlog.config.keys.key import Effect, Key, Level
from twinlog.settings.failed_records import FailedRecordSettings
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import written


class UpdateMode(StrEnum):
    """How a running process takes over another value of a key."""

    AT_ONCE = "at once"
    """The flow continues with the value; its copying is uninterrupted."""

    PAUSE = "pause"
    """The copiers of the flow end in order and begin again with the value, within a second or two; no record is lost or
    repeated."""

    RESTART = "restart"
    """The value counts from the next start of the process on; until then the flow has the value of its start."""

    NOTHING = "nothing"
    """The key is ignored, at least at its place in the file."""


LIVE: Mapping[str, UpdateMode] = MappingProxyType(
    {
        # Which flows there are. A cluster that goes needs a restart, see `config.file_changes`.
        "clusters": UpdateMode.AT_ONCE,
        "enabled": UpdateMode.AT_ONCE,
        # Filters.
        "topics": UpdateMode.AT_ONCE,
        "topics.exclude": UpdateMode.AT_ONCE,
        "groups": UpdateMode.AT_ONCE,
        "groups.exclude": UpdateMode.AT_ONCE,
        "config.properties.exclude": UpdateMode.AT_ONCE,
        "heartbeats.replication.enabled": UpdateMode.AT_ONCE,
        # Work that repeats.
        "refresh.topics.enabled": UpdateMode.AT_ONCE,
        "refresh.topics.interval.seconds": UpdateMode.AT_ONCE,
        "refresh.groups.enabled": UpdateMode.AT_ONCE,
        "refresh.groups.interval.seconds": UpdateMode.AT_ONCE,
        # Copiers wait for a larger `max.message.bytes` while settings are kept in step.
        "sync.topic.configs.enabled": UpdateMode.PAUSE,
        "sync.topic.configs.interval.seconds": UpdateMode.AT_ONCE,
        "sync.topic.acls.enabled": UpdateMode.AT_ONCE,
        "sync.topic.acls.interval.seconds": UpdateMode.AT_ONCE,
        "sync.group.offsets.enabled": UpdateMode.AT_ONCE,
        "sync.group.offsets.interval.seconds": UpdateMode.AT_ONCE,
        "emit.checkpoints.enabled": UpdateMode.AT_ONCE,
        "emit.checkpoints.interval.seconds": UpdateMode.AT_ONCE,
        "emit.heartbeats.enabled": UpdateMode.AT_ONCE,
        "emit.heartbeats.interval.seconds": UpdateMode.AT_ONCE,
        # Copiers write offset syncs.
        "emit.offset-syncs.enabled": UpdateMode.PAUSE,
        # Policies.
        "twinlog.gap.policy": UpdateMode.PAUSE,
        "twinlog.oversized.record.policy": UpdateMode.PAUSE,
        "twinlog.refused.record.policy": UpdateMode.PAUSE,
        "twinlog.renamed.topic.policy": UpdateMode.AT_ONCE,
        "errors.tolerance": UpdateMode.PAUSE,
        "errors.log.enable": UpdateMode.PAUSE,
        "errors.log.include.messages": UpdateMode.PAUSE,
        "errors.deadletterqueue.topic.name": UpdateMode.PAUSE,
        "errors.deadletterqueue.topic.replication.factor": UpdateMode.PAUSE,
        "errors.deadletterqueue.context.headers.enable": UpdateMode.PAUSE,
        # Keys that count while a file is read.
        "config.providers": UpdateMode.AT_ONCE,
        "config.providers.*": UpdateMode.AT_ONCE,
        "twinlog.unknown.keys": UpdateMode.AT_ONCE,
    }
)

NEEDS_RESTART = frozenset(
    {
        # Names of remote topics, and the places of positions.
        "replication.policy.class",
        "replication.policy.separator",
        "replication.policy.internal.topic.separator.enabled",
        "source.cluster.alias",
        "target.cluster.alias",
        "offsets.storage.topic",
        "offset-syncs.topic.location",
        # Classes, functions, queries, and their arguments.
        "topic.filter.class",
        "group.filter.class",
        "config.property.filter.class",
        "forwarding.admin.class",
        "transform",
        "transform.sql",
        "transforms",
        "transforms.*",
        "predicates",
        "predicates.*",
        # How topics are created and changed.
        "replication.factor",
        "offset-syncs.topic.replication.factor",
        "checkpoints.topic.replication.factor",
        "heartbeats.topic.replication.factor",
        "use.defaults.from",
        "use.incremental.alter.configs",
        # How records are copied, and on how much of a machine.
        "twinlog.start",
        "tasks.max",
        "offset.lag.max",
        "exactly.once.support",
        "transaction.boundary",
        "transaction.boundary.interval.ms",
        "twinlog.lease.seconds",
        "twinlog.position.interval.ms",
        "twinlog.copier.memory.bytes",
        # The process.
        "add.source.alias.to.metrics",
        "metric.names.formats",
        "twinlog.resource",
        "twinlog.warm.up.enabled",
        "twinlog.driver.host",
        "twinlog.driver.bind.address",
        "twinlog.driver.port",
        "twinlog.metrics.listeners",
        "twinlog.metrics.listeners.https.*",
        "twinlog.metrics.partitions.enabled",
    }
)
"""Keys of flows and of the process that are read once."""

CLASSIFIED = frozenset({Level.PROCESS, Level.FLOW, Level.ONE_FLOW})
"""Keys of these levels are in either table; keys of all other levels need a restart."""

FAILED_RECORDS = "failed_records"
"""The field of a flow's settings that keys of `FailedRecordSettings` fill."""

_NEW_NAMES = {old: new for new, old in OLD_NAMES.items()}


def takes(key: Key) -> UpdateMode:
    """How a running process takes over another value of a key."""
    if key.effect is not Effect.WORKS:
        return UpdateMode.NOTHING
    return live(key.name) or UpdateMode.RESTART


def live(name: str) -> UpdateMode | None:
    """How a value of the key is taken over while the process runs, None if it needs a restart. A key of several forms,
    `NAME` and `NAME.*`, is in the table once."""
    name = _NEW_NAMES.get(name, name)
    return LIVE.get(name) or LIVE.get(name.removesuffix(".*"))


@cache
def live_fields() -> Mapping[str, tuple[UpdateMode, UpdateMode]]:
    """The fields of a flow's settings that are taken over.

    The first mode is for a changed value, the second for a value that appears or disappears.

    The second differs from the first if the key switches work on and off.
    """
    found: dict[str, tuple[UpdateMode, UpdateMode]] = {}
    for name, how in written(FlowSettings).items():
        value = live(how.key)
        if value is not None and how.key != "enabled":
            found[name] = (value, live(how.switch) or value)
    found[FAILED_RECORDS] = (UpdateMode.PAUSE, UpdateMode.PAUSE)
    return MappingProxyType(found)


def fields_of(key: Key) -> tuple[str, ...]:
    """The fields of a flow's settings that a key fills, or switches on and off."""
    name = _NEW_NAMES.get(key.name, key.name)
    found = tuple(field for field, how in written(FlowSettings).items() if name in (how.key, how.switch))
    of_failed = any(how.key == name for how in written(FailedRecordSettings).values())
    return (*found, FAILED_RECORDS) if of_failed else found
