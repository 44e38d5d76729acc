"""Creates topics on a target that may refuse a part: too few brokers for the replicas, unknown settings."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.topics import NewTopic, Refusal, listed
from twinlog.model.types import TopicName

log = logging.getLogger(__name__)

_ABOUT_SETTINGS = (Code.INVALID_CONFIG, Code.POLICY_VIOLATION)

Send = Callable[[Sequence[NewTopic]], Mapping[TopicName, Refusal]]
"""Sends topics to a cluster, and returns the refused topics."""


def create_topics(
    flow: str, target: ClusterAdmin, topics: Sequence[NewTopic], created: Callable[[TopicName], None] | None = None
) -> dict[TopicName, Refusal]:
    """Create topics, after a refusal in a reduced form; returns the topics that the target refused altogether.

    An existing topic counts as created; `created` as in `ClusterAdmin.create_topics`. Raises ClusterError when the
    target is silent.
    """
    send = target.create_topics if created is None else partial(target.create_topics, created=created)
    refused, reduced = negotiate(topics, send, lambda some: target.validate_topics(some)[0])
    _warn(flow, target, reduced)
    return refused


def require_topics(flow: str, target: ClusterAdmin, topics: Sequence[NewTopic]) -> None:
    """Create topics as `create_topics` does.

    Raises RefusedError for a topic that the target refuses. Raises ClusterError if a later try may create the topic:
    the controller throttles or changes, or the target is silent.
    """
    for name, refusal in create_topics(flow, target, topics).items():
        text = f"cluster {target.alias}: topic {name} could not be created: {refusal.text}"
        kind = ClusterError if refusal.code in error_codes.RETRIABLE else RefusedError
        raise kind(text, message_id="TW-INTERNAL-09")


class ReducedTopic(NamedTuple):
    """A topic after the removal of its refused part: words for the part, and the target's reason."""

    topic: NewTopic
    what: str
    instead: str
    why: str


def negotiate(
    topics: Sequence[NewTopic], send: Send, validate: Send
) -> tuple[dict[TopicName, Refusal], list[ReducedTopic]]:
    """Send topics, and after a refusal reduced topics; returns the refused topics and the reduced topics.

    `send` returns the topics that the target refuses; it either creates the accepted topics or only validates.
    `validate` only validates.
    """
    wanted = {topic.name: topic for topic in topics}
    refused = dict(send(topics))
    reduced: list[ReducedTopic] = []
    searched: set[TopicName] = set()
    while True:
        again = [humbler for name, refusal in refused.items() if (humbler := _reduced(wanted[name], refusal))]
        if not again:
            unclear = {name: refusal for name, refusal in refused.items() if name not in searched}
            searched |= unclear.keys()
            again = _found_out(wanted, unclear, validate)
        if not again:
            return refused, [one for one in reduced if one.topic.name not in refused]
        reduced += again
        wanted.update((one.topic.name, one.topic) for one in again)
        for one in again:
            refused.pop(one.topic.name)
        refused.update(send([one.topic for one in again]))


def _reduced(topic: NewTopic, refusal: Refusal) -> ReducedTopic | None:
    """The topic reduced by the part that the refusal names; None if the topic must keep the part."""
    if refusal.code == Code.INVALID_REPLICATION_FACTOR and topic.replication_factor != -1:
        what = f"replication factor {topic.replication_factor}"
        return ReducedTopic(replace(topic, replication_factor=-1), what, "the broker's default is taken", refusal.text)
    named = frozenset(key for key in topic.configs if _names(refusal.text, key))
    if refusal.code == Code.POLICY_VIOLATION:
        # A rule of the cluster's own (KIP-108), whose words may be about anything.
        named &= topic.optional
    return _without(topic, named, refusal) if refusal.code in _ABOUT_SETTINGS and named else None


def _names(text: str, key: str) -> bool:
    """Whether `text` has `key` as a word: `delete.retention.ms` does not contain the word `retention.ms`."""
    return re.search(rf"(?<![\w.-]){re.escape(key)}(?!\.?[\w-])", text) is not None


def _without(topic: NewTopic, keys: Collection[str], refusal: Refusal) -> ReducedTopic:
    configs = {key: value for key, value in topic.configs.items() if key not in keys}
    return ReducedTopic(replace(topic, configs=configs), ", ".join(sorted(keys)), "created without", refusal.text)


def _found_out(
    wanted: Mapping[TopicName, NewTopic], refused: Mapping[TopicName, Refusal], validate: Send
) -> list[ReducedTopic]:
    """Topics whose refusal leaves the setting open, reduced by the optional settings that the target refuses.

    The search tries a setting at a time, for all topics at once. A topic that the target refuses even without optional
    settings is left out: the refusal has another reason.
    """
    asked = [wanted[name] for name, refusal in refused.items() if refusal.code in _ABOUT_SETTINGS]
    optional = {topic.name: [key for key in topic.configs if key in topic.optional] for topic in asked}
    bare = [_without(topic, optional[topic.name], refused[topic.name]).topic for topic in asked if optional[topic.name]]
    against = validate(bare) if bare else {}
    kept = {topic.name: topic for topic in bare if topic.name not in against}
    for number in range(max((len(optional[name]) for name in kept), default=0)):
        trials = [
            replace(topic, configs={**topic.configs, key: wanted[name].configs[key]})
            for name, topic in kept.items()
            for key in optional[name][number : number + 1]
        ]
        against = validate(trials)
        kept.update((trial.name, trial) for trial in trials if trial.name not in against)
    found = [(wanted[name], wanted[name].configs.keys() - topic.configs.keys()) for name, topic in kept.items()]
    return [_without(topic, keys, refused[topic.name]) for topic, keys in found if keys]


def _warn(flow: str, cluster: ClusterAdmin, reduced: Sequence[ReducedTopic]) -> None:
    """Log a warning for all topics with the same refusal."""
    topics: dict[tuple[str, str, str], list[TopicName]] = defaultdict(list)
    for one in reduced:
        topics[one.what, one.instead, one.why].append(one.topic.name)
    for (what, instead, why), names in topics.items():
        text = f"cluster {cluster.alias} refuses {what} of {listed(names)} ({why}); {instead}"
        message_id = "TW-TOPIC-13" if what.startswith("replication factor") else "TW-TOPIC-14"
        log.warning("%s: %s: %s", message_id, flow, text, extra={"of": names})
