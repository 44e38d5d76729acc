"""Recognises by their names topics that a flow outside this file copied back to where they came from.

Two files on two hosts, each with one direction and a separator or a policy of its own, copy each topic back for ever,
under names that grow. No file shows that; the names and the topics that are there do.
"""

from __future__ import annotations

import re
from collections.abc import Container

from twinlog.mirror.topology.topology import Topology
from twinlog.model.types import TopicName

_SEPARATORS = "._-"
"""What may stand between an alias and a topic: topic names have no other punctuation (Kafka class Topic)."""


def echo(topology: Topology, topic: TopicName, target: Container[TopicName]) -> str | None:
    """Why `topic` of the source is a copy of what the flow itself copied before, in words; None if it is none.

    Two cases count, which no name of a topic's own falls into by chance: the name is the target's alias, a separator,
    and a remote topic of this flow that is there on the target; or it begins with one way over this cluster twice. A
    topic that `topics` names in full is the user's own.
    """
    if topology.keeps_names or topology.names_in_full(topic):
        return None
    behind = topic.removeprefix(topology.target_name)
    remote = TopicName(behind.lstrip(_SEPARATORS))
    if topic != behind != remote and remote in target and topology.source_topic(remote) not in {None, remote}:
        return (
            f"by its name it is the copy of {remote}, which this flow made on {topology.target}, brought back "
            "under another naming"
        )
    alias = re.escape(topology.source_name)
    if alias and re.match(rf"(.+[{_SEPARATORS}]{alias}[{_SEPARATORS}])\1", topic):
        return f"by its name it came over {topology.source} twice"
    return None
