"""Creates topics on a target that may refuse some of it: too few brokers for the replicas, unknown settings."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.topics import NewTopic, Refusal, listed
from twinlog.model.types import TopicName

log = logging.getLogger(__name__)


def create_topics(
    flow: str, target: ClusterAdmin, topics: Sequence[NewTopic], created: Callable[[TopicName], None] | None = None
) -> dict[TopicName, Refusal]:
    """Create topics; retry without what the target refused; returns the topics that it refused altogether.

    A topic that exists counts as created; `created` as in `ClusterAdmin.create_topics`. Raises ClusterError when the
    target does not answer.
    """
    send = target.create_topics if created is None else partial(target.create_topics, created=created)
    refused, reduced = negotiate(topics, send)
    _warn(flow, target, reduced)
    return refused


class Reduced(NamedTuple):
    """A topic without what the target refused: words for that, and the target's own about why."""

    topic: NewTopic
    what: str
    instead: str
    why: str


def negotiate(
    topics: Sequence[NewTopic], send: Callable[[Sequence[NewTopic]], Mapping[TopicName, Refusal]]
) -> tuple[dict[TopicName, Refusal], list[Reduced]]:
    """Send topics, and again without what was refused; the topics that were refused altogether, and what was left out.

    `send` returns what the target refuses, whether it creates the others or only looks whether it would.
    """
    wanted = {topic.name: topic for topic in topics}
    refused = dict(send(topics))
    reduced: list[Reduced] = []
    while again := [humbler for name, refusal in refused.items() if (humbler := _reduced(wanted[name], refusal))]:
        reduced += again
        wanted.update((one.topic.name, one.topic) for one in again)
        for one in again:
            refused.pop(one.topic.name)
        refused.update(send([one.topic for one in again]))
    return refused, reduced


def _reduced(topic: NewTopic, refusal: Refusal) -> Reduced | None:
    """The same topic without what the target refused; None when nothing can be left out."""
    if refusal.code == Code.INVALID_REPLICATION_FACTOR and topic.replication_factor != -1:
        what = f"replication factor {topic.replication_factor}"
        return Reduced(replace(topic, replication_factor=-1), what, "the broker's default is taken", refusal.text)
    optional = topic.optional & topic.configs.keys()
    named = frozenset(key for key in topic.configs if key in refusal.text)
    if refusal.code == Code.POLICY_VIOLATION:
        # A rule of the cluster's own; its words need not name a setting.
        named = named & optional or optional
    if refusal.code in (Code.INVALID_CONFIG, Code.POLICY_VIOLATION) and named:
        configs = {key: value for key, value in topic.configs.items() if key not in named}
        return Reduced(replace(topic, configs=configs), ", ".join(sorted(named)), "created without", refusal.text)
    return None


def _warn(flow: str, cluster: ClusterAdmin, reduced: Sequence[Reduced]) -> None:
    """One warning for all topics with the same refusal."""
    topics: dict[tuple[str, str, str], list[TopicName]] = defaultdict(list)
    for one in reduced:
        topics[one.what, one.instead, one.why].append(one.topic.name)
    for (what, instead, why), names in topics.items():
        text = f"cluster {cluster.alias} refuses {what} of {listed(names)} ({why}); {instead}"
        log.warning("%s: %s", flow, text, extra={"of": names})
