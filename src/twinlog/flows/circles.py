"""Finds topics that several flows together would copy back to where they began.

The default policy tells such topics by their names (`flows/topology.py`); where names are kept, or flows disagree on
the separator, nothing in a name does. MirrorMaker 2 copies such topics round for ever.
"""

from __future__ import annotations

from collections.abc import Sequence

from twinlog.flows.topology import Topology
from twinlog.types import TopicName

_ROUNDS = 3
"""A topic that one flow has copied so often under different names is copied for ever, by longer and longer names."""


def circle(flow: Topology, topic: TopicName, flows: Sequence[Topology]) -> tuple[Topology, ...]:
    """The flows that would copy `topic` of `flow`'s source for ever, beginning with `flow`; empty when it ends.

    `flows` are all flows that run, `flow` among them.
    """
    way = _search(flow, topic, flows, ())
    again = next((number for number, (one, _) in enumerate(way) if number and one is flow), len(way))
    return tuple(one for one, _ in way[:again])


_Way = tuple[tuple[Topology, TopicName], ...]


def _search(flow: Topology, topic: TopicName, flows: Sequence[Topology], way: _Way) -> _Way:
    """The first way that does not end, as (flow, topic of its source)."""
    times = sum(one is flow for one, _ in way)
    if times == _ROUNDS or (flow, topic) in way:
        # A circle that the topic only leads to is found for the topics in it.
        return way if way[0] == (flow, topic) or (times == _ROUNDS and way[0][0] is flow) else ()
    if not flow.mirrors(topic):
        return ()
    remote = flow.remote_name(topic)
    for following in flows:
        if following.source == flow.target:
            found = _search(following, remote, flows, (*way, (flow, topic)))
            if found:
                return found
    return ()
