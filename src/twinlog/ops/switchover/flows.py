"""Which flows of a file a switchover is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twinlog.console.flow_choice import between
from twinlog.errors import TwinlogError
from twinlog.settings.flow import AdminSettings, ClientSettings, FlowSettings


def flows_between(
    flows: Sequence[FlowSettings], source: str, target: str
) -> tuple[FlowSettings, FlowSettings, FlowSettings]:
    """The flow that leads there, the one that follows its groups, and the flow back.

    Connectors of a worker copy and follow groups apart from each other. Where the file has no flow back it has the
    settings of the first.
    """
    known = sorted({str(alias) for flow in flows for alias in (flow.source, flow.target)})
    for alias, option in ((source, "--from"), (target, "--to")):
        if alias not in known:
            raise TwinlogError(f"{option} {alias}: no cluster of the file, which has {', '.join(known)}")

    if source == target:
        raise TwinlogError(f"--from and --to are both {source}: name the cluster to leave and the one to go to")
    there, home = between(flows, source, target), between(flows, target, source)
    flow = next((one for one in there if one.copies), None)
    back = next((one for one in home if one.copies), None)
    if flow is None:
        way_out = f"are --from and --to the wrong way round? The file has {target}->{source}; else"
        raise TwinlogError(
            f"the file has no flow {source}->{target} that is enabled: {way_out if back is not None else ''} write "
            f"{source}->{target}.enabled = true, and have it run".replace("  ", " ")
        )
    follows = next((one for one in there if one.kind == "checkpoint"), flow)
    return flow, follows, back or _reversed(flow)


def _reversed(flow: FlowSettings) -> FlowSettings:
    """The flow back as it would be with the same keys; its clients are called as it would call them."""
    there, back = f"{flow.source}->{flow.target}", f"{flow.target}->{flow.source}"

    def called(client: ClientSettings, like: ClientSettings) -> ClientSettings:
        return replace(client, client_id=like.client_id.replace(there, back))

    here, far = flow.source_admin.client, flow.target_admin.client
    return replace(
        flow,
        source=flow.target,
        target=flow.source,
        source_cluster_alias=flow.target_cluster_alias,
        target_cluster_alias=flow.source_cluster_alias,
        consumer=replace(flow.consumer, client=called(flow.producer.client, flow.consumer.client)),
        producer=replace(flow.producer, client=called(flow.consumer.client, flow.producer.client)),
        source_admin=AdminSettings(called(far, here)),
        target_admin=AdminSettings(called(here, far)),
        worker_group_id=None,
    )
