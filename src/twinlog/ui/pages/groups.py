"""The consumer groups of a flow, and the page of a group: offsets on both sides, whether the group may move, and its
checkpoints and commits so far.

The verdicts are those of `twinlog groups`.
"""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from twinlog.errors import RequestError
from twinlog.model.types import GroupId
from twinlog.ops.groups.checkpoint_history import GroupSyncEvent
from twinlog.ops.groups.command import flow_json, hidden_offsets, summary
from twinlog.ops.groups.snapshot import GroupStatus
from twinlog.ui.live.flows import LiveFlow
from twinlog.ui.pages.paging import ListColumn, ListQuery, Row, paged
from twinlog.ui.rendering import ConsolePage
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import Visit, page_routes

COLUMNS = (
    ListColumn("group", "Group"),
    ListColumn("answer", "May move"),
    ListColumn("partitions", "Partitions", number=True),
    ListColumn("source_lag", "Lag on the source", number=True),
    ListColumn("target_lag", "Lag on the target", number=True),
    ListColumn("source_state", "State on the source"),
    ListColumn("target_state", "State on the target"),
)

PARTITION_COLUMNS = (
    ListColumn("partition", "Partition"),
    ListColumn("source_offset", "Source offset", number=True),
    ListColumn("source_lag", "Source lag", number=True),
    ListColumn("translated", "Translated", number=True),
    ListColumn("target_offset", "Target offset", number=True),
    ListColumn("target_lag", "Target lag", number=True),
    ListColumn("repeats", "Repeats", number=True),
    ListColumn("skips", "Skips", number=True),
    ListColumn("checkpoint_ms", "Last checkpoint", number=True),
    ListColumn("answer", "May move"),
)

YES, MOVED, NO = "yes", "has moved", "no"

MOST_SYNCS = 50
"""The most checkpoints and commits on the page of a group."""


class GroupsPages:
    """`/ui/groups?flow=NAME` and `/ui/group?flow=NAME&group=GROUP`."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        return [
            *page_routes(self._site, "/groups", self.show),
            *page_routes(self._site, "/group", self.show_group),
        ]

    async def show(self, visit: Visit) -> ConsolePage:
        """The groups of a flow by the newest reading."""
        flow = self._chosen(visit)
        await wait_groups(self._site, flow)
        name, reading = flow.settings.name, flow.groups.reading
        seen = reading.value
        query = ListQuery.of(visit.request.query_params, [one.name for one in COLUMNS])
        rows = [] if seen is None else [_group_row(one) for one in seen.groups]
        data = {
            "flow": name,
            "flows": self._following(),
            "summary": None if seen is None else summary(seen),
            "source_trouble": None if seen is None else seen.source_trouble,
            "hidden": None if seen is None or seen.hidden is None else hidden_offsets(seen.hidden),
            "left_out": [] if seen is None else list(seen.left_out[:20]),
            "groups": paged(rows, query, COLUMNS, "group", {"flow": name}),
            "read_at_ms": reading.at_ms,
            "trouble": reading.trouble,
            "reading": reading.version == 0,
        }
        return ConsolePage(
            "groups/groups.html", "groups", f"Groups of {name}", data, live=(f"groups:{name}",), shared=True
        )

    async def show_group(self, visit: Visit) -> ConsolePage:
        """A group by the newest reading. Raises RequestError 404 for an unknown group, 502 before the first reading."""
        flow = self._chosen(visit)
        await self._site.wait_fresh(flow.groups, flow.checkpoints)
        name, reading, wanted = flow.settings.name, flow.groups.reading, visit.query("group")
        seen = reading.value
        if seen is None:
            raise RequestError(502, f"The groups of {name} are unknown: {reading.trouble or 'they are being read'}")
        found = next((one for one in flow_json(seen)["groups"] if one["group"] == wanted), None)
        status = next((one for one in seen.groups if one.group == wanted), None)
        if found is None or status is None:
            raise RequestError(404, f"Flow {name} leaves out group {wanted!r}, or the group is unknown.")
        query = ListQuery.of(visit.request.query_params, [one.name for one in PARTITION_COLUMNS])
        rows = [_partition_row(part) for part in found["partitions"]]
        fixed = {"flow": name, "group": wanted}
        data = {
            "flow": name,
            "source": flow.settings.source,
            "target": flow.settings.target,
            **_group_row(status),
            "partitions": paged(rows, query, PARTITION_COLUMNS, "partition", fixed),
            "read_at_ms": reading.at_ms,
            "trouble": reading.trouble,
            "checkpoints_s": flow.settings.emit_checkpoints_interval_s,
            "syncs_s": flow.settings.sync_group_offsets_interval_s,
            "syncs": _syncs(flow, GroupId(wanted)),
            "syncs_trouble": flow.checkpoints.reading.trouble,
        }
        return ConsolePage("groups/group.html", "groups", wanted, data, live=(f"groups:{name}", f"checkpoints:{name}"))

    def _following(self) -> list[str]:
        return [name for name in self._site.sources.flows if self._site.sources.follower(name) is not None]

    def _chosen(self, visit: Visit) -> LiveFlow:
        names = self._following()
        name = visit.query("flow") or next(iter(names), "")
        if not name or (name not in names and name in self._site.sources.flows):
            raise RequestError(404, "The flow leaves consumer groups alone.")
        return self._site.live.flow(name)


async def wait_groups(site: ConsoleSite, flow: LiveFlow) -> None:
    """Have the groups of a flow read, and wait a moment for a reading of now."""
    await site.wait_fresh(flow.groups)


def _syncs(flow: LiveFlow, group: GroupId) -> list[Row]:
    """The last checkpoints of a group that the topic has, and its last commits that the console saw, the newest
    first."""
    kept = flow.checkpoints.reading.value
    checkpoints: list[tuple[str, GroupSyncEvent]] = [
        ("checkpoint", one) for one in (() if kept is None else kept.get(group, ()))
    ]
    found = [*checkpoints, *(("commit", one) for one in flow.commits.commits(group))]
    found.sort(key=lambda one: (-one[1].at_ms, str(one[1].remote), one[0]))
    return [
        {
            "at_ms": one.at_ms,
            "kind": kind,
            "partition": str(one.remote),
            "source_offset": one.source,
            "target_offset": one.target,
        }
        for kind, one in found[:MOST_SYNCS]
    ]


def _group_row(group: GroupStatus) -> Row:
    facts = [part.facts for part in group.partitions]
    return {
        "group": group.group,
        "answer": MOVED if group.moved else YES if group.safe else NO,
        "reasons": [
            {"reason": reason.obstacle.value, "text": reason.text, "heals": reason.heals} for reason in group.reasons
        ],
        "partitions": len(group.partitions),
        "source_lag": _sum([one.source_lag for one in facts]),
        "target_lag": _sum([one.target_lag for one in facts]),
        "source_state": group.source_state,
        "target_state": group.target_state,
    }


def _sum(lags: list[int | None]) -> int | None:
    return None if None in lags else sum(lag for lag in lags if lag is not None)


def _partition_row(part: dict[str, Any]) -> Row:
    """A partition of a group by the JSON of `twinlog groups`."""
    answer = MOVED if part["moved"] else YES if part["safe"] else NO
    return {
        **{
            name: part[name]
            for name in ("topic", "source_offset", "source_lag", "translated", "exact", "target_offset")
        },
        **{name: part[name] for name in ("target_lag", "repeats", "repeats_exact", "skips", "reasons")},
        "partition": f"{part['topic']}-{part['partition']}",
        "checkpoint_ms": part["checkpoint"]["written_ms"],
        "answer": answer,
    }
