"""Creates topics on a target that may not take everything: fewer brokers than replicas, settings it does not know."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from twinlog.kafka.admin import ClusterAdmin
from twinlog.kafka.faults import Code
from twinlog.topics import NewTopic, Refusal
from twinlog.types import TopicName

log = logging.getLogger(__name__)


def create_topics(flow: str, target: ClusterAdmin, topics: Sequence[NewTopic]) -> dict[TopicName, Refusal]:
    """Create topics, and again without what the target refused of them; returns those that it refused altogether.

    A topic that exists counts as created. Raises ClusterError when the target does not answer.
    """
    refused = target.create_topics(topics)
    again = [_humbler(flow, topic, refused[topic.name]) for topic in topics if topic.name in refused]
    retried = [topic for topic in again if topic is not None]
    if retried:
        second = target.create_topics(retried)
        for topic in retried:
            refused.pop(topic.name)
        refused.update(second)
    return refused


def _humbler(flow: str, topic: NewTopic, refusal: Refusal) -> NewTopic | None:
    """The same topic without what the target refused; None when nothing can be left out."""
    if refusal.code == Code.INVALID_REPLICATION_FACTOR and topic.replication_factor != -1:
        log.warning(
            "%s: replication factor %d of %s was refused (%s); the broker's default is taken",
            flow,
            topic.replication_factor,
            topic.name,
            refusal.text,
        )
        return replace(topic, replication_factor=-1)
    named = {key: value for key, value in topic.configs.items() if key in refusal.text}
    if refusal.code == Code.INVALID_CONFIG and named:
        log.warning(
            "%s: the target refuses %s of %s (%s); created without", flow, ", ".join(named), topic.name, refusal.text
        )
        return replace(topic, configs={key: value for key, value in topic.configs.items() if key not in named})
    return None
