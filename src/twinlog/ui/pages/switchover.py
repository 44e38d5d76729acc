"""The page of a switchover: its steps while it runs, its report, and the forms that begin, undo and end it.

The steps, the journal and the report are those of `twinlog switchover` and `switchback`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from twinlog.errors import RequestError
from twinlog.mirror.topics.journal_keys import SwitchoverState
from twinlog.ops.switchover.journal import JournalEntries
from twinlog.ops.switchover.model import FenceMethod, SwitchoverKind, SwitchoverOptions
from twinlog.ops.switchover.stage import ENDED
from twinlog.settings.flow import FlowSettings
from twinlog.ui.audit import audit
from twinlog.ui.conducting import (
    CONTINUE,
    RELEASE,
    UNDO,
    ConductedSwitchover,
    SwitchoverMode,
    SwitchoverReading,
    SwitchoverRequest,
)
from twinlog.ui.live.flows import LiveFlow
from twinlog.ui.live.poller import LiveReading
from twinlog.ui.pages.topics.topics import copying_flows
from twinlog.ui.rendering import ConsolePage, quoted
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import Visit, page_routes, with_mistake

MOST_ROWS = 100
"""The most partitions and groups of a report on the page; `twinlog switchover --status` prints all."""

_DEFAULTS = SwitchoverOptions(SwitchoverKind.PLANNED)
_MOST_NEAR, _MOST_S = 10**12, 86_400.0

TITLES: Mapping[SwitchoverKind, str] = {
    SwitchoverKind.PLANNED: "Switch over",
    SwitchoverKind.EMERGENCY: "Fail over without the source",
    SwitchoverKind.BACK: "Switch back",
}

EFFECTS: Mapping[SwitchoverKind, str] = {
    SwitchoverKind.PLANNED: "Producers are kept from {source} until every record is copied, and groups continue on "
    "{target}. After a switchover that is done, and without a way back since, only the groups are brought again.",
    SwitchoverKind.EMERGENCY: "{source} is lost: groups continue on {target} at the records that were copied.",
    SwitchoverKind.BACK: "After a switchover {target}->{source}: the records since then are copied to {target}, and "
    "producers and groups return.",
}


class SwitchoverPages:
    """`/ui/switchover?flow=NAME`, `/ui/switchover/confirm`, and `/ui/switchover/act`."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        return [
            *page_routes(self._site, "/switchover", self.show),
            *page_routes(self._site, "/switchover/confirm", self.confirm),
            *page_routes(self._site, "/switchover/act", None, self.act),
        ]

    async def show(self, visit: Visit) -> ConsolePage:
        """The state of the newest switchover of a flow, and the forms that are possible now."""
        names = copying_flows(self._site)
        name = visit.query("flow") or next(iter(names), "")
        flow = self._site.live.flow(name)
        poller = flow.switchover
        await self._site.wait_fresh(poller)
        reading, conducted = poller.reading, self._site.conductor.find(name)
        found = await self._with_its_end(flow, reading.value)
        fence_left = may_leave_fence(found) and await self._is_fence_left(flow)
        if not self._site.settings.actions:
            possible = []
        elif conducted is not None and conducted.runs:
            possible = offers_while_running(flow.settings, found, conducted)
        else:
            possible = offers(flow.settings, found, fence_left=fence_left)
        data = {
            "flow": name,
            "flows": names,
            "from": flow.settings.source,
            "to": flow.settings.target,
            "read_at_ms": reading.at_ms,
            "trouble": reading.trouble,
            "stands": None if found is None else found.stands,
            "fence_left": fence_left,
            "conducted": None if conducted is None else _conducted(conducted),
            "offers": possible,
            "report": {} if found is None else _bounded(found.report, runs=conducted is not None and conducted.runs),
        }
        return ConsolePage(
            "switchover/switchover.html", "readiness", f"Switchover {name}", data, live=(f"switchover:{name}",)
        )

    async def _is_fence_left(self, flow: LiveFlow) -> bool:
        """Whether the source has the fence of a switchover that nothing in the journal tells of."""
        reading = await self._read_other_journal(flow)
        return reading.value is not None and bool(reading.value.fenced) and reading.trouble is None

    async def _with_its_end(self, flow: LiveFlow, found: SwitchoverReading | None) -> SwitchoverReading | None:
        """A switchover that is done by its own journal may have ended by a later switchover in the other direction."""
        if found is None or found.entries.run is None or found.entries.run.state is not SwitchoverState.DONE:
            return found
        other = (await self._read_other_journal(flow)).value
        return found if other is None else found.with_its_end(other)

    async def _read_other_journal(self, flow: LiveFlow) -> LiveReading[JournalEntries]:
        """The journal on the source; a silent source is waited for only the first time."""
        poller = flow.other_journal
        await self._site.threads.read.run(partial(poller.wait_reading, self._site.settings.first_read_s))
        return poller.reading

    async def confirm(self, visit: Visit) -> ConsolePage:
        """The effect of an action, its options, and the form that begins it."""
        self._site.require_actions()
        mode, kind = _mode(visit.query("mode")), _kind(visit.query("kind", "planned"))
        return await self._confirmation(visit.query("flow"), mode, kind, {})

    async def _confirmation(
        self, name: str, mode: SwitchoverMode, kind: SwitchoverKind, form: Mapping[str, str]
    ) -> ConsolePage:
        """The form that begins an action, with the values of an earlier form."""
        settings = self._site.sources.flow(name)
        live = self._site.live.flow(name)
        await self._site.wait_fresh(live.switchover)
        found = await self._with_its_end(live, live.switchover.reading.value)
        continues = mode is SwitchoverMode.RUN and found is not None and _continues(found, kind)
        planned = mode is SwitchoverMode.RUN and kind is SwitchoverKind.PLANNED and not continues
        if planned:
            await self._site.wait_fresh(live.rehearsal)
        rehearsed = live.rehearsal.reading.value if planned and not live.rehearsal.is_stale else None
        data = {
            "flow": name,
            "mode": mode,
            "kind": kind,
            "title": CONTINUE if continues else _title(mode, kind),
            "effect": _effect(mode, kind, settings, found),
            "continues": continues,
            "from": settings.source,
            "to": settings.target,
            "fences": [one.value for one in FenceMethod],
            "fence": form.get("fence", ""),
            "near": form.get("near", _DEFAULTS.near),
            "timeout": form.get("timeout", int(_DEFAULTS.at_most_s)),
            "take_over": form.get("take_over") == "yes",
            "typed": form.get("typed", ""),
            "mistake": None,
            "problems": [] if rehearsed is None else rehearsed.data["problems"],
            "seconds_without_producers": None if rehearsed is None else rehearsed.data["seconds_without_producers"],
        }
        return ConsolePage("switchover/confirm.html", "readiness", f"{data['title']} {name}", data)

    async def act(self, visit: Visit) -> ConsolePage | Response:
        """Begin an action, and lead to the page that shows its steps; a form with a mistake comes back."""
        self._site.require_actions()
        form = visit.form
        name, mode, kind = form.get("flow", ""), _mode(form.get("mode", "")), _kind(form.get("kind", ""))
        settings = self._site.sources.flow(name)
        try:
            _require_typed(form, settings)
            request = SwitchoverRequest(
                name, mode, _options(kind, form), form.get("take_over") == "yes", visit.user, visit.address
            )
            self._site.conductor.begin(request)
        except RequestError as error:
            facts = {"flow": name, "kind": kind, "outcome": "refused", "status": str(error.status)}
            audit(visit.user, visit.address, f"{mode} switchover", **facts)
            return with_mistake(await self._confirmation(name, mode, kind, form), error)
        live = self._site.live.flow(name)
        live.switchover.hurry()
        live.other_journal.hurry()
        return RedirectResponse(f"{self._site.root}/switchover?flow={quoted(name)}", 303)


def may_leave_fence(found: SwitchoverReading | None) -> bool:
    """Whether a fence on the source would be missing from the journal: an undone switchover or a lost journal left
    it."""
    return found is not None and (found.entries.run is None or found.entries.run.state is SwitchoverState.ABORTED)


def offers(
    settings: FlowSettings, found: SwitchoverReading | None, *, fence_left: bool = False
) -> list[dict[str, Any]]:
    """The actions that are possible by the journal; without a journal the failover, as the target may answer later."""
    run = None if found is None else found.entries.run
    if found is None or run is None or run.state in ENDED:
        kinds = [_offer(settings, SwitchoverMode.RUN, kind) for kind in SwitchoverKind]
        done = run is not None and run.state is SwitchoverState.DONE
        fenced = done and found is not None and found.entries.done("release") is None
        release = (
            [_offer(settings, SwitchoverMode.RELEASE, SwitchoverKind.PLANNED, found)] if fenced or fence_left else []
        )
        return [*kinds, *release]
    abort = _offer(settings, SwitchoverMode.ABORT, run.options.kind)
    # The source may be lost at any time: neither its steps nor their undoing end then.
    lost = _offer(settings, SwitchoverMode.RUN, SwitchoverKind.EMERGENCY)
    emergency = [] if run.options.kind is SwitchoverKind.EMERGENCY else [lost]
    if run.state is SwitchoverState.ABORTING:
        return [abort, *emergency]
    again = {**_offer(settings, SwitchoverMode.RUN, run.options.kind), "title": CONTINUE}
    undo = [] if found.entries.done("open") is not None else [abort]
    return [again, *undo, *emergency]


def offers_while_running(
    settings: FlowSettings, found: SwitchoverReading | None, conducted: ConductedSwitchover
) -> list[dict[str, Any]]:
    """The undo of a switchover that this console works on, as long as producers are kept from the target."""
    opened = found is not None and found.entries.done("open") is not None
    if opened or not conducted.may_stop:
        return []
    abort = _offer(settings, SwitchoverMode.ABORT, conducted.request.options.kind)
    return [{**abort, "title": "Stop and undo"}]


def _continues(found: SwitchoverReading, kind: SwitchoverKind) -> bool:
    """Whether a run of this kind continues a begun switchover, which keeps its first options."""
    run = found.entries.run
    begun = run is not None and run.state not in ENDED and found.entries.done("check") is not None
    return begun and run is not None and run.options.kind is kind


def _offer(
    settings: FlowSettings, mode: SwitchoverMode, kind: SwitchoverKind, found: SwitchoverReading | None = None
) -> dict[str, Any]:
    return {"mode": mode, "kind": kind, "title": _title(mode, kind), "effect": _effect(mode, kind, settings, found)}


def _title(mode: SwitchoverMode, kind: SwitchoverKind) -> str:
    return {SwitchoverMode.ABORT: UNDO, SwitchoverMode.RELEASE: RELEASE}.get(mode) or TITLES[kind]


def _effect(mode: SwitchoverMode, kind: SwitchoverKind, settings: FlowSettings, found: SwitchoverReading | None) -> str:
    if mode is SwitchoverMode.ABORT:
        return f"All steps are undone, and producers may write to {settings.source} again."
    if mode is SwitchoverMode.RELEASE and may_leave_fence(found):
        return f"The fence that an earlier switchover left is lifted: producers may write to {settings.source} again."
    if mode is SwitchoverMode.RELEASE:
        return f"Producers may write to {settings.source} again, though they stay on {settings.target} for good."
    return EFFECTS[kind].format(source=settings.source, target=settings.target)


def _mode(text: str) -> SwitchoverMode:
    try:
        return SwitchoverMode(text)
    except ValueError:
        raise RequestError(400, f"The action {text!r} is unknown; it is {', '.join(SwitchoverMode)}.") from None


def _kind(text: str) -> SwitchoverKind:
    try:
        return SwitchoverKind(text)
    except ValueError:
        raise RequestError(400, f"The kind {text!r} is unknown; it is {', '.join(SwitchoverKind)}.") from None


def _require_typed(form: Mapping[str, str], settings: FlowSettings) -> None:
    """Raise RequestError 400 unless the user typed the name of the target."""
    if form.get("typed", "").strip() != settings.target:
        raise RequestError(400, f"Nothing was changed: type the name {settings.target} to confirm it.")


def _options(kind: SwitchoverKind, form: Mapping[str, str]) -> SwitchoverOptions:
    """The options of a form. Raises RequestError 400 with the wrong field."""
    fence = form.get("fence", "")
    if fence and fence not in list(FenceMethod):
        raise RequestError(400, f"The fence {fence!r} is unknown; it is {', '.join(FenceMethod)}.")
    near = _number(form.get("near") or str(_DEFAULTS.near), "records left to copy", 0, _MOST_NEAR)
    seconds = _number(form.get("timeout") or str(int(_DEFAULTS.at_most_s)), "seconds", 1, int(_MOST_S))
    return SwitchoverOptions(kind, FenceMethod(fence) if fence else None, near, float(seconds))


def _number(text: str, what: str, least: int, most: int) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 16 and least <= int(text) <= most):
        raise RequestError(400, f"Write the {what} as a number from {least} to {most}; found {text!r}.")
    return int(text)


def _conducted(one: ConductedSwitchover) -> dict[str, Any]:
    return {
        "title": _title((one.undone_by or one.request).mode, one.request.options.kind),
        "runs": one.runs,
        "trouble": one.trouble,
        "problems": list(one.problems),
        "lines": [{"at_ms": line.at_ms, "step": line.step, "words": line.words} for line in list(one.lines)],
    }


_OF_GROUP = ("group", "skipped", "repeated", "repeated_exact", "members_on_source", "trouble")


def _bounded(report: Mapping[str, Any], *, runs: bool) -> dict[str, Any]:
    """The report with a bounded number of partitions and groups, those with a loss first; without next steps while
    this console `runs` the switchover."""
    if not report:
        return {}
    groups = [{"group": name, **one} for name, one in report["groups"].items()]
    groups.sort(key=lambda one: (one["skipped"] == 0, one["repeated"] == 0, one["group"]))
    shown = {name: value for name, value in report.items() if name not in ("groups", "partitions", "late", "tail")}
    return {
        **shown,
        "next": [] if runs else report["next"],
        "partitions": report["partitions"][:MOST_ROWS],
        "more_partitions": max(0, len(report["partitions"]) - MOST_ROWS),
        "groups": [{name: one[name] for name in _OF_GROUP} for one in groups[:MOST_ROWS]],
        "more_groups": max(0, len(groups) - MOST_ROWS),
        "skipped": sum(one["skipped"] or 0 for one in groups),
        "repeated": sum(one["repeated"] or 0 for one in groups),
        "repeated_exact": all(one["repeated_exact"] for one in groups),
        "unknown_groups": sum(one["skipped"] is None for one in groups),
        "unknown_repeats": sum(one["repeated"] is None for one in groups),
    }
