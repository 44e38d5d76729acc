"""Which flows of a file follow consumer groups, and which of them copy for those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinlog.errors import TwinlogError
from twinlog.settings.flow import FlowSettings


@dataclass(frozen=True, slots=True)
class Follower:
    """A flow that follows groups, those that copy what its groups read, and the flow back, if there is one.

    A flow of a file does both itself; of a worker's connectors one follows groups, others copy.
    """

    settings: FlowSettings
    copied_by: tuple[FlowSettings, ...]
    reverse: FlowSettings | None = None


def followers(flows: Sequence[FlowSettings]) -> list[Follower]:
    """Every flow that follows groups. Raises TwinlogError with the way out if there is none."""
    found = [_follower(flow, flows) for flow in flows if flow.enabled and flow.kind in (None, "checkpoint")]
    if not found:
        raise TwinlogError("no flow of the file follows consumer groups: add that of a MirrorCheckpointConnector")
    return found


def _follower(flow: FlowSettings, flows: Sequence[FlowSettings]) -> Follower:
    there = [one for one in flows if one.copies and (one.source, one.target) == (flow.source, flow.target)]
    back = next((one for one in flows if (one.target, one.source) == (flow.source, flow.target) and _copies(one)), None)
    return Follower(flow, tuple(there) or (flow,), back)


def _copies(flow: FlowSettings) -> bool:
    """Also one that is not enabled: it may have run before."""
    return flow.kind in (None, "source")
