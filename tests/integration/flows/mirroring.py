"""Creates remote topics once, as a flow does each time it looks for new topics."""

from __future__ import annotations

from harness.wait import wait_for
from tests.connected_admins import connected_admins
from twinlog.mirror.topics.changes import compare
from twinlog.mirror.topics.remote_topics import TopicMirror
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.topics import Refusal
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings


def mirror_topics(settings: FlowSettings) -> dict[TopicName, Refusal]:
    """Create the remote topics that are missing and let the others grow; returns what was refused, once a broker shows
    the rest."""
    with connected_admins(settings) as (source, target):
        mirror = TopicMirror(settings, source, target)
        changes = compare(topology_of(settings), source.topics(), target.topics())
        refused = {
            **(mirror.create(changes.create) if changes.create else {}),
            **(mirror.grow(changes.grow) if changes.grow else {}),
        }
        done = [pair for pair in (*changes.create, *changes.grow) if pair.remote not in refused]

        def known() -> bool:
            there = target.topics()
            return all(
                pair.remote in there and there[pair.remote].partitions == pair.source.partitions for pair in done
            )

        wait_for(known, 60, "the target's broker has heard of them from its controller")
        return refused
