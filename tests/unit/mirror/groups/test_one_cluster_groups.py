"""Within one cluster a group is the same on both sides: its offsets in the originals are its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import METADATA
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator
from twinlog.mirror.offsets.segments import segments_topic
from twinlog.mirror.offsets.translator import Translator
from twinlog.model.types import Alias, SourceOffset, TopicName, TopicPartition
from twinlog.settings.flow import AdminSettings, ClientSettings, ConsumerSettings, FlowSettings, ProducerSettings

T, COPY, BACK = map(TopicName, ("t", "east.t", "west.t"))


@contextmanager
def translator(*, one_cluster: bool) -> Iterator[tuple[GroupOffsetTranslator, VirtualCluster]]:
    """Of a flow east->west that has run, as the one back has."""
    with virtual_loop(1) as loop:
        east = VirtualCluster(loop, "east")
        west = east if one_cluster else VirtualCluster(loop, "west")
        admins = [
            ClusterAdmin(alias, ClientSettings(cluster.bootstrap), VirtualLoop(loop.world))
            for alias, cluster in (("east", east), ("west", west))
        ]
        here, there = (ClientSettings(cluster.bootstrap) for cluster in (east, west))
        settings = FlowSettings(
            *(Alias("east"), Alias("west"), ConsumerSettings(here), ProducerSettings(there)),
            *(AdminSettings(here), AdminSettings(there)),
        )
        for cluster, alias in ((west, "east"), (east, "west")):
            cluster.create(f"mm2-offsets.{alias}.internal")
            cluster.create(segments_topic(Alias(alias)))
        try:
            for admin in admins:
                admin.connect()
            source, target = admins
            yield GroupOffsetTranslator(settings, source, target, Translator(settings, source, target)), east
        finally:
            for admin in admins:
                admin.close()


@pytest.mark.parametrize("one_cluster", [False, True])
def test_commits_in_copies_are_translated_between_two_clusters_alone(one_cluster: bool) -> None:
    with translator(one_cluster=one_cluster) as (found, east):
        assert found.accepts(T)
        assert {topic: found.accepts(topic) for topic in (COPY, BACK)} == dict.fromkeys((COPY, BACK), not one_cluster)
        assert found.is_copy_beside(BACK) is one_cluster
        asked = east.asked[METADATA]
        found.accepts(COPY)
        assert east.asked[METADATA] == asked
        found.refresh([T, BACK])
        assert found._way_back is not one_cluster
        assert found.translate_offset(TopicPartition(BACK, 0), SourceOffset(3)) is None
