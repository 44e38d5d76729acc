"""The topics that producers write to on the cluster that they come to, where copies have other names."""

from __future__ import annotations

from collections.abc import Collection

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.topics.configs import settings_at_creation
from twinlog.mirror.topics.create import create_topics
from twinlog.mirror.topology.plugins import config_filter_of
from twinlog.model.topics import NewTopic
from twinlog.model.types import TopicName
from twinlog.ops.switchover.model import Data, MovedTopic
from twinlog.settings.flow import FlowSettings


def missing_topics(
    flow: FlowSettings, source: ClusterAdmin | None, target: ClusterAdmin, topics: Collection[MovedTopic]
) -> Data:
    """See `World.missing_topics`; of a source that is lost the copies have the settings."""
    there = target.topics()
    lacking = [topic for topic in topics if topic.producers and topic.producers not in there]
    admin, names = (
        (target, {topic.remote: topic for topic in lacking})
        if source is None
        else (source, {topic.name: topic for topic in lacking})
    )
    configs = admin.configs(names) if names else {}
    filter_ = config_filter_of(flow)
    return {
        "topics": {
            topic.producers: {
                "partitions": topic.partitions,
                "configs": settings_at_creation(configs.get(name, []), filter_),
            }
            for name, topic in names.items()
        }
    }


def make_topics(flow: FlowSettings, target: ClusterAdmin, plan: Data) -> Data:
    """See `World.create_topics`."""
    wanted = [
        NewTopic(TopicName(name), one["partitions"], flow.replication_factor, one["configs"], frozenset(one["configs"]))
        for name, one in plan["topics"].items()
    ]
    if not wanted:
        return {}
    return {name: refusal.text for name, refusal in create_topics(flow.name, target, wanted).items()}
