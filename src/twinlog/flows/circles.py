"""Finds topics that several flows together would copy back to where they began.

The default policy tells such topics by their names (`flows/topology.py`); where names are kept, or flows disagree on
the separator, nothing in a name does. MirrorMaker 2 copies such topics round for ever.
"""

from __future__ import annotations

from collections.abc import Sequence

from twinlog.flows.topology import Topology
from twinlog.types import TopicName


def circle(flow: Topology, topic: TopicName, flows: Sequence[Topology]) -> tuple[Topology, ...]:
    """The flows over which `topic` of `flow`'s source would come to be copied by `flow` again, beginning with `flow`.

    Empty when it would not. `flows` are all flows that run, `flow` among them.
    """
    return _search(flow, topic, flows, ())


def _search(
    flow: Topology, topic: TopicName, flows: Sequence[Topology], way: tuple[Topology, ...]
) -> tuple[Topology, ...]:
    if flow in way:
        # A circle that `topic` only leads to is found for the topics in it.
        return way if flow is way[0] else ()
    if not flow.mirrors(topic):
        return ()
    remote = flow.remote_name(topic)
    for following in flows:
        if following.source == flow.target:
            found = _search(following, remote, flows, (*way, flow))
            if found:
                return found
    return ()
