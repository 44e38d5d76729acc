"""Names the members of another kind in a flow's group."""

from __future__ import annotations

from twinlog.kafka.coordinator.membership import GroupSeen
from twinlog.model.groups import CONNECT_PROTOCOL, TWINLOG_PROTOCOL


def why_taken(seen: GroupSeen, group: str, flow: str, target: str) -> str:
    """What keeps this process from taking part, and the way out."""
    who = ", ".join(seen.members) or "members that just left"
    if seen.protocol_type == TWINLOG_PROTOCOL:
        return (
            f"another version of twinlog runs this flow: group {group} of {target} has the members {who}; "
            "stop it, this one waits and takes over"
        )
    if seen.protocol_type == CONNECT_PROTOCOL:
        return (
            f"MirrorMaker 2 still runs this flow: group {group} of {target} has the members {who}; "
            "stop it, twinlog waits and takes over"
        )
    return (
        f"group {group} of {target} is used by others ({seen.protocol_type or 'no'} protocol: {who}); "
        f"stop them, or choose another group.id for {flow}; twinlog waits"
    )
