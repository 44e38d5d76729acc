"""The page of a topic: its partitions with the offsets and the newest records of both sides, and its last commands."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from twinlog.errors import RequestError
from twinlog.ops.topics.snapshot import PartitionSnapshot, TopicSnapshot
from twinlog.ui.both_sides import NewestTimes
from twinlog.ui.live.flows import LiveFlow
from twinlog.ui.live.poller import LiveReading
from twinlog.ui.pages.attention import attention_rows, attentions
from twinlog.ui.pages.paging import ListColumn, ListQuery, paged
from twinlog.ui.pages.topics.topics import topic_rows, wait_topics
from twinlog.ui.rendering import ConsolePage
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import Visit, page_routes

COLUMNS = (
    ListColumn("partition", "Partition", number=True),
    ListColumn("source_start", "Source start", number=True),
    ListColumn("source_end", "Source end", number=True),
    ListColumn("source_offset", "Copied to", number=True),
    ListColumn("target_offset", "Target offset", number=True),
    ListColumn("lag", "Lag (records)", number=True),
    ListColumn("source_newest_ms", "Newest record, source"),
    ListColumn("copy_newest_ms", "Newest record, copy"),
    ListColumn("state", "State"),
)
PROOF_COLUMNS = (
    ListColumn("proven_source", "Proven to", number=True),
    ListColumn("proof_lag_s", "Proof behind", number=True),
    ListColumn("differences", "Differences", number=True),
)
"""Further columns of a topic with a proof of equality."""

MOST_COMMANDS = 10

FORM_FIELDS = ("verb", "partitions", "place", "value")
"""The fields of the form of actions, which comes back with a mistake."""

UNKNOWN_TIMES = NewestTimes(None, None)


class TopicPage:
    """`/ui/topic?flow=NAME&topic=TOPIC`."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        return page_routes(self._site, "/topic", self.show)

    async def show(self, visit: Visit) -> ConsolePage:
        """A topic by the newest reading."""
        flow = self._site.live.flow(visit.query("flow"))
        await wait_topics(self._site, flow)
        topic = topic_of(flow, visit.query("topic"))
        name = flow.settings.name
        reading, state = flow.topics.reading, flow.state.reading
        proves = any(part.proven is not None and part.proven.proves for part in topic.partitions)
        columns = (*COLUMNS, *PROOF_COLUMNS) if proves else COLUMNS
        query = ListQuery.of(visit.request.query_params, [one.name for one in columns])
        newest = await self._newest(flow, topic)
        times = newest.value or {}
        rows = [_row(part, times.get(part.partition.partition, UNKNOWN_TIMES)) for part in topic.partitions]
        fixed = {"flow": name, "topic": topic.topic}
        troubles = [one for one in attentions(name, state.value, None) if one.topic == topic.topic]
        data = {
            "flow": name,
            "source": flow.settings.source,
            "target": flow.settings.target,
            "topic": topic.topic,
            "remote_topic": topic.remote,
            "left_out": topic.left_out or None,
            "sums": next(row for row in topic_rows(flow) if row["topic"] == topic.topic),
            "read_at_ms": reading.at_ms,
            "trouble": reading.trouble,
            "newest_read_at_ms": newest.at_ms,
            "newest_trouble": newest.trouble,
            "attention": attention_rows(troubles),
            "proves": proves,
            "partitions": paged(rows, query, columns, "partition", fixed),
            "commands": _commands(flow, topic),
            "actions": self._site.settings.actions,
            "form": {name: visit.query(name) for name in FORM_FIELDS},
        }
        return ConsolePage("topics/topic.html", "topics", topic.topic, data, live=(name, f"topics:{name}"))

    async def _newest(self, flow: LiveFlow, topic: TopicSnapshot) -> LiveReading[dict[int, NewestTimes]]:
        """The newest records of a copied topic; waits a moment for the first reading."""
        if topic.left_out:
            return LiveReading()
        poller = flow.newest(topic.topic)
        poller.touch()
        if poller.reading.version == 0:
            await self._site.threads.read.run(lambda: poller.wait_reading(self._site.settings.first_read_s))
        return poller.reading


def topic_of(flow: LiveFlow, name: str) -> TopicSnapshot:
    """A topic of a flow by the newest reading. Raises RequestError 404, and 502 before the first reading."""
    seen = flow.topics.reading.value
    if seen is None or (seen.trouble and not seen.topics):
        why = flow.topics.reading.trouble or (seen.trouble if seen is not None else "the first answer is still to come")
        raise RequestError(502, f"The topics of {flow.settings.name} are unknown: {why}")
    found = next((one for one in seen.topics if one.topic == name), None)
    if found is None:
        raise RequestError(404, f"Flow {flow.settings.name} leaves out topic {name!r}, or the topic is unknown.")
    return found


def _row(part: PartitionSnapshot, newest: NewestTimes) -> dict[str, Any]:
    """A partition; the offset of a record of the source equals the offset on the target only by chance."""
    proof = part.proven
    return {
        "partition": part.partition.partition,
        "source_start": part.start,
        "source_end": part.end,
        "source_offset": part.copied,
        "target_offset": part.target,
        "lag": part.lag,
        "source_newest_ms": newest.source_ms,
        "copy_newest_ms": newest.copy_ms,
        "state": part.state.value,
        "detail": part.detail,
        "resume": part.resume,
        "proven_source": None if proof is None or not proof.proves else proof.source,
        "proven_target": None if proof is None or not proof.proves else proof.target,
        "proof_lag_s": None if proof is None or not proof.proves else proof.lag_ms / 1000,
        "differences": None if proof is None else proof.differences,
        "difference": None if proof is None or not proof.difference else f"TW-PROOF-01: {proof.difference}",
        "unproved": None if proof is None else proof.unproved,
    }


def _commands(flow: LiveFlow, topic: TopicSnapshot) -> list[dict[str, Any]]:
    """The last commands for the topic, the newest first."""
    seen = flow.topics.reading.value
    outcomes = [] if seen is None else list(seen.asked.outcomes)
    mine = [one for one in outcomes if any(sel.has_topic(topic.topic) for sel in one.command.selectors)]
    return [
        {
            "id": one.command.id,
            "command": str(one.command),
            "by": one.command.by,
            "at_ms": one.command.at_ms or None,
            "result": one.result.value,
            "reason": one.reason,
        }
        for one in reversed(mine[-MOST_COMMANDS:])
    ]
