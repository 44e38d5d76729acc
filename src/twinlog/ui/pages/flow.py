"""The page of a flow: charts of the last hour or day, tasks with their places, held partitions, troubles, topics."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from twinlog.model.amounts import counted, shown_age, shown_bytes, shown_moment
from twinlog.ops.status.report_history import MOST_BYTES, ReportHistory
from twinlog.ops.status.status_text import flow_figures
from twinlog.ui.live.flows import LiveFlow
from twinlog.ui.live.kept_readings import columns_of, points_of_reports
from twinlog.ui.pages.attention import attention_rows, attentions
from twinlog.ui.pages.overview import flow_row
from twinlog.ui.pages.topics.topics import topics_list
from twinlog.ui.rendering import ConsolePage
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import ConsoleEndpoint, Visit, page_routes
from twinlog.worker.status.report import DriverReport

MOST_HELD = 50

CHARTS = (
    {"series": "record_rate", "title": "Records per second", "unit": "records/s"},
    {"series": "byte_rate", "title": "Bytes per second", "unit": "bytes/s"},
    {"series": "lag", "title": "Lag in records", "unit": "records"},
    {"series": "lag_s", "title": "Lag in seconds", "unit": "s"},
    {"series": "latency_ms", "title": "Latency", "unit": "ms"},
)


class FlowPage:
    """`/ui/flow?flow=NAME`, and the points of its charts: of the console's memory, and of older reports."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        points = ConsoleEndpoint(self._site, self.points, None, always_json=True)
        history = ConsoleEndpoint(self._site, self.history, None, always_json=True)
        return [
            *page_routes(self._site, "/flow", self.show),
            Route(f"{self._site.root}/api/points", points),
            Route(f"{self._site.root}/api/history", history),
        ]

    async def show(self, visit: Visit) -> ConsolePage:
        """A flow by its newest readings."""
        flow = self._site.live.flow(visit.query("flow"))
        await self._site.wait_fresh(flow.state, flow.topics)
        name = flow.settings.name
        reading = flow.state.reading
        data = {
            **flow_row(flow),
            "attention": attention_rows(attentions(name, reading.value, reading.trouble)),
            "held": _held(flow),
            "processes": _processes(flow),
            "tasks": _tasks(flow),
            "charts": list(CHARTS),
            "report": _report(flow),
            "topics": topics_list(flow, visit, {"flow": name}),
        }
        return ConsolePage("flow.html", "overview", name, data, live=(name, f"topics:{name}"), shared=True)

    async def points(self, visit: Visit) -> Response:
        """The points of the last hour after the moment `since` (Unix ms), as columns."""
        flow = self._site.live.flow(visit.query("flow"))
        flow.state.touch()
        since = visit.query("since", "0")
        since_ms = int(since) if since.isascii() and since.isdecimal() and len(since) < 16 else 0
        return JSONResponse({"flow": flow.settings.name, **flow.points.columns(since_ms)})

    async def history(self, visit: Visit) -> Response:
        """The points of the last day by the reports that the progress topic has, as columns; `reading` until then."""
        flow = self._site.live.flow(visit.query("flow"))
        await self._site.wait_fresh(flow.history)
        reading = flow.history.reading
        found = reading.value if reading.trouble is None else None
        points = [] if found is None else points_of_reports(found.reports)
        answer = {
            "flow": flow.settings.name,
            "reading": reading.version == 0,
            "trouble": reading.trouble,
            "note": None if found is None else _history_note(found),
            **columns_of(points),
        }
        return JSONResponse(answer)


def _history_note(found: ReportHistory) -> str:
    """The source of the points of a day, in words."""
    reports = found.reports
    if not reports:
        return f"Topic {found.topic} has no report of the last 24 hours."
    begin, span_s = reports[0].at_ms, (reports[-1].at_ms - reports[0].at_ms) / 1000
    every = f", about one every {shown_age(span_s / (len(reports) - 1))}" if len(reports) > 1 else ""
    text = (
        f"{counted(len(reports), 'report')} of topic {found.topic} since {shown_moment(begin - begin % 1000)}{every}."
    )
    if found.cut:
        return f"{text} Earlier reports are left out after {shown_bytes(MOST_BYTES)}."
    return f"{text} The topic keeps its reports for its retention.ms, an hour by default."


def _held(flow: LiveFlow) -> dict[str, Any]:
    seen = flow.state.reading.value
    holds = None if seen is None else seen.held_report
    if seen is None or holds is None:
        return {"partitions": None, "by_reason": {}, "first": []}
    found: dict[str, Any] = flow_figures(seen)["held"]
    return {**found, "first": found["first"][:MOST_HELD]}


def _processes(flow: LiveFlow) -> list[dict[str, Any]]:
    """The processes that share the flow, the leader first, and the report of its connector's workers."""
    seen = flow.state.reading.value
    if seen is None:
        return []
    report = seen.facts.report
    found = [
        {
            "process": one.name,
            "leads": one.leads,
            "ready": one.ready,
            "since_s": seen.facts.since_s if one.leads else None,
        }
        for one in seen.facts.processes
    ]
    if not found and report is not None:
        found.append(
            {"process": report.process, "leads": seen.runs, "ready": seen.runs, "since_s": report.since_ms / 1000}
        )
    return found


def _tasks(flow: LiveFlow) -> dict[str, Any]:
    """The copiers of the process that runs the flow now, with the host, the executor and the partitions of each."""
    seen = flow.state.reading.value
    report = None if seen is None else seen.report
    first = () if report is None else report.tasks
    return {
        "first": [
            {
                "copier": one.copier,
                "host": one.host,
                "executor": one.executor,
                "task": one.task,
                "bridge": one.task is None,
                "partitions": one.partitions,
            }
            for one in first
        ],
        "more": 0 if report is None else max(0, report.copiers - len(first)),
    }


def _report(flow: LiveFlow) -> dict[str, Any] | None:
    """The sums of the last report that the figures of a line lack."""
    seen = flow.state.reading.value
    report = None if seen is None else seen.facts.report
    if seen is None or report is None:
        return None
    groups = report.groups
    return {
        "process": report.process,
        "age_s": seen.facts.report_age_s,
        "copiers": report.copiers,
        "partitions": report.partitions,
        "records": report.records,
        "bytes": report.bytes,
        "counts_since_ms": report.counts_since_ms,
        "dropped": report.dropped,
        "failed": report.failed,
        "latency_ms": None if report.latency_ms < 0 else report.latency_ms,
        "bridged": report.bridged,
        "groups_followed": None if groups is None else groups.followed,
        "groups_inexact": None if groups is None else groups.inexact,
        "groups_ahead": None if groups is None else groups.ahead,
        "groups_before_start": None if groups is None else groups.before_start,
        "last_error": _last_error(report),
        "last_error_ms": report.last_error_ms,
        "last_error_over_ms": report.last_error_over_ms,
    }


def _last_error(report: DriverReport) -> str | None:
    over_ms = report.last_error_over_ms
    if report.last_error is None or over_ms is None:
        return report.last_error
    return f"{report.last_error}; over since {shown_moment(over_ms - over_ms % 1000)}"
