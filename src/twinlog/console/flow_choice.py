"""Which flows of a file a command is about: one rule for `--flow`, `--from` and `--to`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import typer

from twinlog.settings.flow import FlowSettings


def at_work(flows: Sequence[FlowSettings]) -> list[FlowSettings]:
    """Those that a run does more for than heartbeats: flows that are enabled, and every connector."""
    return [flow for flow in flows if flow.enabled or flow.kind is not None]


def between(flows: Sequence[FlowSettings], source: str, target: str) -> list[FlowSettings]:
    """Those of them that lead from `source` to `target`: one of a mirror's file, of a worker's every connector."""
    return [flow for flow in at_work(flows) if (flow.source, flow.target) == (source, target)]


def chosen(
    flows: Sequence[FlowSettings],
    name: str | None,
    *,
    fits: Callable[[FlowSettings], bool] = lambda _: True,
    doing: str = "",
    idle: bool = False,
) -> list[FlowSettings]:
    """The flows at work that `fits` lets through; with `name` the one that is called so, or that leads there.

    `east->west` is a flow of a mirror's file, and every connector between the two clusters; a connector is known by its
    own name, too. `doing` names in messages what `fits` asks for. With `idle` a flow that is named need not be enabled,
    as it may have run before. Raises BadParameter that names the flows there are.
    """
    found = [flow for flow in (flows if idle and name is not None else at_work(flows)) if fits(flow)]
    what = f"flow {doing}".strip()
    if not found:
        raise typer.BadParameter(f"it has no {what} that is enabled", param_hint="FILE")
    if name is None:
        return found
    named = [flow for flow in found if name in (flow.name, ends(flow))]
    if not named:
        names = ", ".join(flow.name for flow in found)
        raise typer.BadParameter(
            f"there is no {what} {name}; the file has {names}{_why(flows, name)}", param_hint="--flow"
        )
    return named


def ends(flow: FlowSettings) -> str:
    """`source->target`."""
    return f"{flow.source}->{flow.target}"


def _why(flows: Sequence[FlowSettings], name: str) -> str:
    """What keeps a flow that the file could have from being one of those."""
    idle = any(name == flow.name and not flow.enabled and flow.kind is None for flow in flows)
    return f"; {name} has heartbeats only, without {name}.enabled = true" if idle else ""
