"""Whether another program runs a flow while its plan is made."""

from __future__ import annotations

from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.model.groups import CONNECT_PROTOCOL, GROUPS_TOPIC
from twinlog.model.types import GroupId
from twinlog.ops.inventory.contents import Inventory
from twinlog.settings.flow import FlowSettings


def running_others(target: ClusterAdmin, flow: FlowSettings, there: Inventory) -> str | None:
    """Who copies now and stores positions from time to time only, as MirrorMaker 2 does once a minute; None where
    nobody does, or where that may not be asked."""
    # To ask for the coordinator of a group makes a broker create this topic.
    if GROUPS_TOPIC not in there.topics:
        return None
    try:
        group = target.call(GroupAdmin(target.client).described, GroupId(flow.group_id))
    except ClusterError:
        return None
    if group.protocol != CONNECT_PROTOCOL or not group.members:
        return None
    return "MirrorMaker 2" if flow.kind is None else f"a worker of group {flow.group_id}"
