"""The first page: the troubles of all flows, the map of clusters, and each flow with its state, rate and lag."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from twinlog.errors.message_ids import ID
from twinlog.ops.status.status_text import flow_figures
from twinlog.ui.live.flows import MOST_READINGS, LiveFlow
from twinlog.ui.pages.attention import attention_rows, attentions, sorted_by_urgency
from twinlog.ui.pages.flow_map import MOST_CLUSTERS, MOST_FLOWS, flow_map
from twinlog.ui.rendering import ConsolePage
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import Visit, page_routes

MOST_ATTENTIONS = 50

Data = dict[str, Any]


class OverviewPage:
    """`/ui/`: the map of clusters and flows."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        return page_routes(self._site, "/", self.show)

    async def show(self, visit: Visit) -> ConsolePage:
        """All flows by their newest readings."""
        flows = self._site.live.flows()
        await wait_states(self._site, flows)
        troubles = sorted_by_urgency(
            one
            for flow in flows
            for one in attentions(flow.settings.name, flow.state.reading.value, flow.state.reading.trouble)
        )
        rows = [flow_row(flow) for flow in flows]
        data = {
            "flows": rows,
            "clusters": _clusters(rows),
            "map": flow_map(rows),
            "map_limits": [MOST_CLUSTERS, MOST_FLOWS],
            "attention": attention_rows(troubles[:MOST_ATTENTIONS]),
            "more_attention": max(0, len(troubles) - MOST_ATTENTIONS),
        }
        return ConsolePage(
            "overview.html",
            "overview",
            "Overview",
            data,
            live=tuple(flow.settings.name for flow in flows[:MOST_READINGS]),
            shared=len(flows) <= MOST_READINGS,
        )


async def wait_states(site: ConsoleSite, flows: list[LiveFlow]) -> None:
    """Have the states of flows read, and wait a moment for a reading of now of each."""
    await site.wait_fresh(*(flow.state for flow in flows))


def flow_row(flow: LiveFlow) -> Data:
    """A flow in a line: the figures of `twinlog status`; all of them None before the first reading, and after a failed
    or stale reading: older figures would look like those of now."""
    reading, settings = flow.state.reading, flow.settings
    row: Data = {
        "flow": settings.name,
        "source": settings.source,
        "target": settings.target,
        "read_at_ms": reading.at_ms,
        "trouble": reading.trouble,
    }
    if reading.value is None or reading.trouble or flow.state.is_stale:
        detail = reading.trouble or (None if reading.value is None else "the last reading is old")
        return {**row, "condition": "unknown", "state": "unknown", "detail": detail, "brief": detail, "figures": None}
    figures = flow_figures(reading.value)
    kept = {name: figures[name] for name in ("condition", "state", "detail")}
    return {**row, **kept, "brief": _brief(kept["detail"]), "figures": figures}


def _brief(detail: str | None) -> str | None:
    """A detail without the messages in it: the list of troubles has them with their ways out."""
    return detail if detail is None or (found := ID.search(detail)) is None else detail[: found.start()].rstrip(": ")


def _clusters(rows: list[Data]) -> list[Data]:
    """The clusters, each with the flows that leave it and that arrive there."""
    names = dict.fromkeys(name for row in rows for name in (row["source"], row["target"]))
    return [
        {
            "cluster": name,
            "sends": [row["flow"] for row in rows if row["source"] == name],
            "receives": [row["flow"] for row in rows if row["target"] == name],
        }
        for name in names
    ]
