"""The rules for records that a flow cannot copy: Connect's `errors.*`, and twinlog's policies beside them."""

from __future__ import annotations

from typing import cast

from twinlog.config.text.reading import Reading, plain_fields
from twinlog.config.text.resolve import FlowLayers
from twinlog.errors import TransformError
from twinlog.model.heartbeat_names import HeartbeatNames
from twinlog.model.route_names import check_name
from twinlog.model.types import TopicName
from twinlog.settings.failed_records import FailedRecordSettings
from twinlog.settings.flow import FlowSettings, RecordPolicy
from twinlog.settings.per_topic import PerTopic
from twinlog.settings.written import key_of

TOPIC = key_of(FailedRecordSettings, "dead_letter_topic")


def failed_record_settings(connector: Reading, layers: FlowLayers, warnings: list[str]) -> FailedRecordSettings:
    """Connect's `errors.*` of a flow; a dead-letter topic that gets no record is a warning."""
    settings = FailedRecordSettings(**plain_fields(FailedRecordSettings, connector))
    dead = connector.written(TOPIC)
    if dead is None or not settings.dead_letter_topic:
        return settings
    aliases = frozenset((layers.source, layers.target, *layers.aliases))
    heartbeats = HeartbeatNames(connector.text("replication.policy.separator"), aliases)
    internal = heartbeats.hold(TopicName(settings.dead_letter_topic))
    try:
        check_name(settings.dead_letter_topic)
    except TransformError:
        internal = True
    if internal:
        connector.problems.refuse(dead, repr(dead.value), "a topic that is no internal one")
    used = any("dead-letter" in record_policy(connector, field, settings).values for field in _POLICIES)
    if settings.tolerance == "none" and not used:
        warnings.append(
            f"{dead.place}: {dead.key}: no record is written to this topic, because a record that fails holds its "
            f"partition; write {key_of(FailedRecordSettings, 'tolerance')} = all"
        )
    return settings


_POLICIES = ("oversized_record_policy", "refused_record_policy")


def record_policy(connector: Reading, field: str, failed: FailedRecordSettings) -> PerTopic[RecordPolicy]:
    """A policy for records by its field of `FlowSettings`. Where the file names none, `errors.tolerance = all` leaves
    the record out, as Connect does since KIP-779."""
    key = key_of(FlowSettings, field)
    policy = cast("PerTopic[RecordPolicy]", connector.per_topic(key))
    if connector.written(key) is None and failed.tolerance == "all":
        policy = PerTopic("dead-letter" if failed.dead_letter_topic else "skip", policy.rules)
    if not failed.dead_letter_topic:
        for name, entry in connector.layer.items():
            if (name == key or name.startswith(f"{key}.")) and entry.value.strip().lower() == "dead-letter":
                connector.problems.refuse(entry, repr(entry.value.strip()), f"a topic in {TOPIC} for such records")
    return policy
