"""The page of failover readiness: whether a switchover may begin now, its loss, the wait of producers, and the proof.

The answer is that of `twinlog switchover --dry-run`. The other checks explain it with the facts of status and groups.
"""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from twinlog.errors import RequestError
from twinlog.model.amounts import counted
from twinlog.ops.groups.command import missing as missing_groups
from twinlog.ops.groups.command import summary
from twinlog.ops.status.flow import FlowSnapshot
from twinlog.ops.status.state import FlowCondition
from twinlog.ops.status.status_text import shown_proof
from twinlog.ops.switchover.steps.waiting import PROOF_NEAR_S
from twinlog.ui.live.flows import LiveFlow
from twinlog.ui.pages.groups import wait_groups
from twinlog.ui.pages.overview import wait_states
from twinlog.ui.pages.topics.topics import copying_flows
from twinlog.ui.rehearsal import Rehearsal
from twinlog.ui.rendering import ConsolePage
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import Visit, page_routes

_PROOF = "Proof of equality"
_GROUPS = "Consumer groups"
YES, NO, UNKNOWN = "yes", "no", "unknown"
MOST_CALLS = 20


class ReadinessPage:
    """`/ui/readiness?flow=NAME`."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        return page_routes(self._site, "/readiness", self.show)

    async def show(self, visit: Visit) -> ConsolePage:
        """The readiness of a flow by the newest readings."""
        names = copying_flows(self._site)
        name = visit.query("flow") or next(iter(names), "")
        if not name:
            raise RequestError(404, "All flows leave topics alone.")
        flow = self._site.live.flow(name)
        await wait_states(self._site, [flow])
        follows = self._site.sources.follower(name) is not None
        if follows:
            await wait_groups(self._site, flow)
        # A rehearsal takes some seconds. A browser shows the checks meanwhile, and learns of the answer by its stream.
        if visit.takes_json:
            await self._site.wait_fresh(flow.rehearsal)
        else:
            flow.rehearsal.touch()
        reading, stale = flow.rehearsal.reading, flow.rehearsal.is_stale
        data = {
            "flow": name,
            "flows": names,
            "from": flow.settings.source,
            "to": flow.settings.target,
            **_answer(flow, reading.value, reading.trouble, stale=stale),
            "read_at_ms": reading.at_ms,
            "reading": stale,
            "checks": _checks(flow, follows=follows),
        }
        live = (name, f"rehearsal:{name}", *((f"groups:{name}",) if follows else ()))
        return ConsolePage("readiness.html", "readiness", f"Readiness of {name}", data, live=live, shared=True)


def _answer(flow: LiveFlow, seen: Rehearsal | None, trouble: str | None, *, stale: bool) -> dict[str, Any]:
    """The answer with its obstacles; a stale answer, and an answer whose repetition failed, count as unknown."""
    state = _state_of_now(flow)
    loss = None if state is None else state.uncopied
    found: dict[str, Any] = {
        "ready": UNKNOWN,
        "trouble": trouble,
        "problems": [],
        "notes": [],
        "steps": [],
        "fence": None,
        "seconds_without_producers": None,
        "loss_if_source_is_lost": loss,
        "stands": None,
        "last": {},
    }
    if seen is None:
        return found
    data = seen.data
    steps = [
        {**one, "calls": one["calls"][:MOST_CALLS], "more_calls": max(0, len(one["calls"]) - MOST_CALLS)}
        for one in data["steps"]
    ]
    return {
        **found,
        "ready": UNKNOWN if trouble or stale else YES if seen.ready else NO,
        "problems": data["problems"],
        "notes": data["notes"],
        "steps": steps,
        "fence": data["fence"],
        "seconds_without_producers": data["seconds_without_producers"] if seen.ready else None,
        "stands": seen.stands,
        "last": {name: seen.last.get(name) for name in ("run", "kind", "state", "began", "next")} if seen.last else {},
    }


def _checks(flow: LiveFlow, *, follows: bool) -> list[dict[str, Any]]:
    """Each check with its evidence, and the time of the reading."""
    reading = flow.state.reading
    seen = _state_of_now(flow)
    found = []
    if seen is None:
        found.append(_check("State of the flow", None, reading.trouble or "it is being read", reading.at_ms))
    else:
        detail = f": {seen.state.detail}" if seen.state.detail else ""
        runs = seen.state.condition is FlowCondition.RUNNING
        at_ms = reading.at_ms
        found.append(_check("State of the flow", runs, f"{seen.state.word}{detail}", at_ms))
        lag = "unknown" if seen.lag is None else counted(seen.lag, "record")
        unknown = f", of {counted(seen.unknown, 'partition')} unknown" if seen.unknown else ""
        known = seen.lag is not None and not seen.unknown
        found.append(_check("Records to copy", known, f"{lag}{unknown}", at_ms))
        holds = seen.held_report
        held = None if holds is None else holds.held
        found.append(_counted_check("Held partitions", held, "partition", at_ms))
        found.append(_paused_check(seen, at_ms))
        missing = None if seen.report is None else seen.report.missing
        found.append(_counted_check("Missing remote topics", missing, "topic", at_ms))
        found += _proof_checks(flow, seen, at_ms)
        beat = seen.facts.age_s(seen.facts.heartbeat_ms)
        beats = "none yet" if beat is None else f"the last is {beat:.0f} s old"
        found.append(_check("Heartbeats", seen.facts.beats, beats, at_ms))
    if follows:
        found.append(_groups_check(flow))
    return found


def _groups_check(flow: LiveFlow) -> dict[str, Any]:
    """The check of all groups; groups that the source leaves out of its answer may have to wait."""
    reading = flow.groups.reading
    seen = reading.value
    if seen is None:
        return _check(_GROUPS, None, reading.trouble or "they are being read", None)
    safe = all(one.done for one in seen.groups) and seen.source_trouble is None
    if safe and (seen.unlisted or seen.hidden is not None):
        return _check(_GROUPS, False, missing_groups(seen), reading.at_ms)
    return _check(_GROUPS, safe, summary(seen), reading.at_ms)


def _proof_checks(flow: LiveFlow, seen: FlowSnapshot, at_ms: int | None) -> list[dict[str, Any]]:
    """The check of the proof of equality; none for a flow that proves nothing, and should prove nothing."""
    proof = None if seen.report is None else seen.report.proof
    if seen.report is None or proof is None:
        asked = flow.settings.transform is None and any(flow.settings.proof.values)
        return [_check(_PROOF, None, "no process proves the copies", at_ms)] if asked else []
    good = not proof.differences and proof.lag_s <= PROOF_NEAR_S
    return [_check(_PROOF, good, shown_proof(seen.report) or "", at_ms)]


def _state_of_now(flow: LiveFlow) -> FlowSnapshot | None:
    """The state by the newest reading; None if that reading failed, or is stale."""
    return None if flow.state.reading.trouble or flow.state.is_stale else flow.state.reading.value


def _paused_check(seen: FlowSnapshot, at_ms: int | None) -> dict[str, Any]:
    """The check of paused partitions, as of the rehearsal: only a paused partition with records to copy is bad."""
    report = seen.report
    if report is None or not report.paused:
        return _counted_check("Paused partitions", None if report is None else 0, "partition", at_ms)
    lag = "an unknown number of records" if report.paused_lag is None else counted(report.paused_lag, "record")
    good = None if report.paused_lag is None else report.paused_lag == 0
    return _check("Paused partitions", good, f"{counted(report.paused, 'partition')}, {lag} to copy", at_ms)


def _counted_check(name: str, count: int | None, thing: str, at_ms: int | None) -> dict[str, Any]:
    """A check that is good at 0; without a report the number is unknown."""
    if count is None:
        return _check(name, None, "unknown, without a report of a process", at_ms)
    return _check(name, count == 0, counted(count, thing), at_ms)


def _check(name: str, good: bool | None, evidence: str, at_ms: int | None) -> dict[str, Any]:
    return {"check": name, "good": good, "evidence": evidence, "read_at_ms": at_ms}
