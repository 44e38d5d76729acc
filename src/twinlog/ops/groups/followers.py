"""The flows that follow consumer groups, each with the flows that copy the topics of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinlog.errors import TwinlogError
from twinlog.settings.flow import FlowSettings


@dataclass(frozen=True, slots=True)
class Follower:
    """A flow that follows groups, the flows that copy the topics of these groups, and the flow back, if there is any.

    A flow of a file follows groups and copies; of a worker's connectors, a checkpoint connector follows groups, and
    source connectors copy.
    """

    settings: FlowSettings
    copied_by: tuple[FlowSettings, ...]
    reverse: FlowSettings | None = None


def followers(flows: Sequence[FlowSettings]) -> list[Follower]:
    """Every flow that follows groups. Raises TwinlogError with the way out if all flows leave groups alone."""
    found = [_follower(flow, flows) for flow in flows if flow.enabled and flow.kind in (None, "checkpoint")]
    if not found:
        raise TwinlogError(
            "all flows of the file leave out consumer groups: add the file of a MirrorCheckpointConnector"
        )
    return found


def _follower(flow: FlowSettings, flows: Sequence[FlowSettings]) -> Follower:
    there = [one for one in flows if one.copies and (one.source, one.target) == (flow.source, flow.target)]
    return Follower(flow, tuple(there) or (flow,), find_flow_back(flow, flows))


def find_flow_back(flow: FlowSettings, flows: Sequence[FlowSettings]) -> FlowSettings | None:
    """The flow among `flows` that copies from the target of `flow` to its source; it may be disabled."""
    return next((one for one in flows if (one.target, one.source) == (flow.source, flow.target) and _copies(one)), None)


def _copies(flow: FlowSettings) -> bool:
    """A disabled flow counts, too: it may have run before."""
    return flow.kind in (None, "source")
