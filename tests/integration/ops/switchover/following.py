"""The part of a flow that follows groups, in the process of a test."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from twinlog.config import load
from twinlog.worker.flows_without_spark import GroupsFlow


def followed_groups(stack: ExitStack, file: Path, name: str) -> GroupsFlow:
    """The part of a flow that follows groups, each second, until the end of the test."""
    found = {flow.name: flow for flow in load(file).flows}
    settings = replace(found[name], emit_checkpoints_interval_s=1.0, sync_group_offsets_interval_s=1.0)
    (reverse,) = (flow for other, flow in found.items() if other != name)
    flow = GroupsFlow(settings, reverse=reverse)
    flow.start()
    stack.callback(flow.close)
    stack.callback(flow.stop)
    return flow
