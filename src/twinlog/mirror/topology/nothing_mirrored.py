"""Names the filter that is to blame where a flow mirrors no topic at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from twinlog.mirror.topology.topology import Topology
from twinlog.model.topics import listed
from twinlog.model.types import TopicName


def nothing_mirrored(topology: Topology, seen: Sequence[TopicName], left_out: Mapping[TopicName, str]) -> str:
    """Why none of the topics `seen` on the source is mirrored, each reason with its topics.

    `left_out` are those that the topology would mirror, and why the flow does not all the same.
    """
    if not seen:
        text = "besides heartbeats and internal ones; does the login have DESCRIBE on them?"
        return f"no topic of {topology.source} can be seen {text}"
    reasons: dict[str, list[TopicName]] = defaultdict(list)
    for name in seen:
        reasons[left_out.get(name) or topology.refusal(name) or "its remote topic is missing"].append(name)
    why = "; ".join(f"{reason}: {listed(names)}" for reason, names in reasons.items())
    return f"no topic of {topology.source} is mirrored, of {len(seen)} that can be seen ({why})"
