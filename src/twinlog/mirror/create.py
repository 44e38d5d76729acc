"""Creates topics on a target that may refuse some of it: too few brokers for the replicas, unknown settings."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.topics import NewTopic, Refusal, listed
from twinlog.model.types import TopicName

log = logging.getLogger(__name__)


def create_topics(flow: str, target: ClusterAdmin, topics: Sequence[NewTopic]) -> dict[TopicName, Refusal]:
    """Create topics; retry without what the target refused; returns the topics that it refused altogether.

    A topic that exists counts as created. Raises ClusterError when the target does not answer.
    """
    wanted = {topic.name: topic for topic in topics}
    refused = target.create_topics(topics)
    while again := [humbler for name, refusal in refused.items() if (humbler := _reduced(wanted[name], refusal))]:
        _warn(flow, target, again, refused)
        wanted.update((one.topic.name, one.topic) for one in again)
        for one in again:
            refused.pop(one.topic.name)
        refused.update(target.create_topics([one.topic for one in again]))
    return refused


class _Reduced(NamedTuple):
    """A topic without what the target refused, and words for that."""

    topic: NewTopic
    what: str
    instead: str


def _reduced(topic: NewTopic, refusal: Refusal) -> _Reduced | None:
    """The same topic without what the target refused; None when nothing can be left out."""
    if refusal.code == Code.INVALID_REPLICATION_FACTOR and topic.replication_factor != -1:
        what = f"replication factor {topic.replication_factor}"
        return _Reduced(replace(topic, replication_factor=-1), what, "the broker's default is taken")
    optional = topic.optional & topic.configs.keys()
    named = frozenset(key for key in topic.configs if key in refusal.text)
    if refusal.code == Code.POLICY_VIOLATION:
        # A rule of the cluster's own; its words need not name a setting.
        named = named & optional or optional
    if refusal.code in (Code.INVALID_CONFIG, Code.POLICY_VIOLATION) and named:
        configs = {key: value for key, value in topic.configs.items() if key not in named}
        return _Reduced(replace(topic, configs=configs), ", ".join(sorted(named)), "created without")
    return None


def _warn(flow: str, cluster: ClusterAdmin, again: Sequence[_Reduced], refused: Mapping[TopicName, Refusal]) -> None:
    """One warning for all topics with the same refusal."""
    topics: dict[tuple[str, str, str], list[TopicName]] = defaultdict(list)
    for one in again:
        topics[one.what, one.instead, refused[one.topic.name].text].append(one.topic.name)
    for (what, instead, why), names in topics.items():
        text = f"cluster {cluster.alias} refuses {what} of {listed(names)} ({why}); {instead}"
        log.warning("%s: %s", flow, text, extra={"of": names})
