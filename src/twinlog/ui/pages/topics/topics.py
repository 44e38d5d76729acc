"""The topics of a flow with their states, in pages; the rows of the page of a flow are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from twinlog.errors import RequestError
from twinlog.ops.topics.snapshot import TopicSnapshot, TopicState
from twinlog.ui.live.flows import LiveFlow
from twinlog.ui.pages.paging import ListColumn, ListQuery, paged
from twinlog.ui.rendering import ConsolePage
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import Visit, page_routes
from twinlog.worker.status.report import TopicProgress

COLUMNS = (
    ListColumn("topic", "Topic"),
    ListColumn("partitions", "Partitions", number=True),
    ListColumn("lag", "Lag (records)", number=True),
    ListColumn("lag_bytes", "Lag (bytes)", number=True),
    ListColumn("record_rate", "Records/s", number=True),
    ListColumn("state", "State"),
)

PROOF_COLUMNS = (
    ListColumn("proof_lag_s", "Proof behind", number=True),
    ListColumn("differences", "Differences", number=True),
)
"""Further columns of a flow with a proof of equality."""

_WORST = (
    TopicState.HELD,
    TopicState.WAITING,
    TopicState.ASKED,
    TopicState.PAUSED,
    TopicState.COPYING,
    TopicState.LEFT_OUT,
)
"""The state that a topic is shown with is the first of these that a partition of it has."""


class TopicsPage:
    """`/ui/topics?flow=NAME`; the default is the first flow."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        return page_routes(self._site, "/topics", self.show)

    async def show(self, visit: Visit) -> ConsolePage:
        """The topics of a flow by the newest reading."""
        flow = chosen_flow(self._site, visit)
        await wait_topics(self._site, flow)
        name = flow.settings.name
        data = {
            "flow": name,
            "flows": copying_flows(self._site),
            "topics": topics_list(flow, visit, {"flow": name}),
        }
        return ConsolePage(
            "topics/topics.html", "topics", f"Topics of {name}", data, live=(name, f"topics:{name}"), shared=True
        )


def copying_flows(site: ConsoleSite) -> list[str]:
    """The flows that copy topics."""
    return [name for name, settings in site.sources.flows.items() if settings.copies]


def chosen_flow(site: ConsoleSite, visit: Visit) -> LiveFlow:
    """The flow that the URL names, or the first flow that copies. Raises RequestError 404."""
    names = copying_flows(site)
    name = visit.query("flow") or next(iter(names), "")
    if not name:
        raise RequestError(404, "All flows leave topics alone.")
    return site.live.flow(name)


async def wait_topics(site: ConsoleSite, flow: LiveFlow) -> None:
    """Have the topics of a flow read, and wait a moment for a reading of now."""
    flow.state.touch()
    await site.wait_fresh(flow.topics)


def topics_list(flow: LiveFlow, visit: Visit, fixed: Mapping[str, str]) -> dict[str, Any]:
    """A page of the list of topics, with the age of the reading."""
    reading = flow.topics.reading
    rows = topic_rows(flow)
    proves = any(row["proof_lag_s"] is not None for row in rows)
    columns = (*COLUMNS, *PROOF_COLUMNS) if proves else COLUMNS
    query = ListQuery.of(visit.request.query_params, [one.name for one in columns])
    trouble = reading.trouble or (reading.value.trouble if reading.value is not None else None)
    return {
        **paged(rows, query, columns, "topic", fixed),
        "proves": proves,
        "read_at_ms": reading.at_ms,
        "trouble": trouble or None,
        "reading": reading.version == 0,
    }


def topic_rows(flow: LiveFlow) -> list[dict[str, Any]]:
    """Every topic in a row: states and lags by the topics' reader, rates and bytes by the report of the process."""
    seen = flow.topics.reading.value
    state = flow.state.reading.value
    progress = {} if state is None else {one.topic: one for one in state.topics}
    runs = state is not None and state.runs
    return [_row(one, progress.get(one.topic), runs) for one in (() if seen is None else seen.topics)]


def _row(topic: TopicSnapshot, progress: TopicProgress | None, runs: bool) -> dict[str, Any]:
    states = topic.states
    word = next((state for state in _WORST if state in states), TopicState.LEFT_OUT)
    detail = topic.left_out or next((part.detail for part in states.get(word, ()) if part.detail), "")
    # The row has the number of partitions beside the state if the topic has several states.
    count = len(states.get(word, ()))
    proofs = [part.proven for part in topic.partitions if part.proven is not None]
    return {
        "topic": topic.topic,
        "remote_topic": topic.remote,
        "partitions": len(topic.partitions) or None,
        "lag": None if topic.left_out else topic.lag,
        "lag_bytes": None if progress is None or topic.left_out or topic.lag is None else progress.lag_bytes,
        "record_rate": progress.record_rate if progress is not None and runs else None,
        "state": word.value,
        "in_state": count if len(states) > 1 else None,
        "detail": detail,
        "proof_lag_s": max((one.lag_ms / 1000 for one in proofs if one.proves), default=None),
        "differences": sum(one.differences for one in proofs) if proofs else None,
    }
