"""The records of a partition beside their copies, and the settings of a topic that differ on the target.

Keys, values and headers of records are shown as text, as JSON or in hexadecimal digits. The log leaves them out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from starlette.routing import Route

from twinlog.errors import RequestError, TwinlogError
from twinlog.kafka.record.records import Record
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ui.audit import audit
from twinlog.ui.both_sides import BothSidesReader, RecordPage, RecordPair
from twinlog.ui.pages.topics.actions import log_place, partition_numbers
from twinlog.ui.pages.topics.topics import copying_flows
from twinlog.ui.rendering import ConsolePage, quoted
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import Visit, page_routes, with_mistake
from twinlog.worker.control.model import LogPlace, LogPlaceKind

T = TypeVar("T")

SHOWN_BYTES = 2048
"""Bytes of a key, a value or a header on the page."""

MOST_HEADERS = 50
MOST_RECORDS = 50
COUNTS = (10, 20, 50)
FORMS = ("text", "json", "hex")


class RecordsPages:
    """`/ui/records?flow=NAME&topic=TOPIC&partition=0&place=latest&as=text`, and `/ui/topic/settings`."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        return [
            *page_routes(self._site, "/records", self.show),
            *page_routes(self._site, "/topic/settings", self.settings),
        ]

    async def show(self, visit: Visit) -> ConsolePage:
        """Records from a place on, or only the form that asks for them; a form with a mistake comes back."""
        if not self._site.settings.records:
            switch = self._site.settings.records_switch
            raise RequestError(403, f"This console leaves records out: `{switch}` turned them off.")
        names = copying_flows(self._site)
        name = visit.query("flow") or next(iter(names), "")
        self._site.sources.flow(name)
        topic = visit.query("topic").strip()
        form = visit.query("as") if visit.query("as") in FORMS else FORMS[0]
        count = int(visit.query("count")) if visit.query("count") in {str(one) for one in COUNTS} else COUNTS[0]
        kind, value = visit.query("place") or LogPlaceKind.LATEST.value, visit.query("value").strip()
        data: dict[str, Any] = {
            "flow": name,
            "flows": names,
            "topic": topic,
            "partition": visit.query("partition", "0").strip(),
            "place": kind,
            "value": value,
            "as": form,
            "count": count,
            "counts": list(COUNTS),
            "forms": list(FORMS),
            "found": None,
            "mistake": None,
        }
        page = ConsolePage("topics/records.html", "records", f"Records of {topic}" if topic else "Records", data)
        try:
            data["partition"] = next(iter(partition_numbers(data["partition"])), 0)
            if topic:
                data["found"] = await self._found(visit, data)
        except TwinlogError as error:
            return with_mistake(page, error)
        return page

    async def _found(self, visit: Visit, data: dict[str, Any]) -> dict[str, Any]:
        """The records that the fields of the form ask for. Raises TwinlogError."""
        flow, part = data["flow"], TopicPartition(TopicName(data["topic"]), data["partition"])
        place = log_place(data["place"], data["value"])
        page = await self._read(flow, lambda reader: reader.records(part, place, data["count"]))
        facts = {"flow": flow, "partition": str(part), "place": str(place), "records": len(page.pairs)}
        audit(visit.user, visit.address, "read records", **facts)
        return _shown_page(page, data["as"], self._links(data, page))

    async def settings(self, visit: Visit) -> ConsolePage:
        """The settings of a topic that differ on the target."""
        name, topic = visit.query("flow"), visit.query("topic")
        self._site.sources.flow(name)
        found = await self._read(name, lambda reader: reader.differing_settings(TopicName(topic)))
        data = {
            "flow": name,
            "topic": topic,
            "settings": [{"setting": key, "source": mine, "target": theirs} for key, mine, theirs in found],
        }
        return ConsolePage("topics/settings.html", "topics", f"Settings of {topic}", data)

    async def _read(self, name: str, read: Callable[[BothSidesReader], T]) -> T:
        threads = self._site.threads.of_flow(self._site.sources.flow(name))

        def call() -> T:
            with self._site.sources.open_both_sides(name) as reader:
                return read(reader)

        return await threads.run(call)

    def _links(self, data: dict[str, Any], page: RecordPage) -> dict[str, str | None]:
        """The links to the records before and after."""
        fixed = {name: str(data[name]) for name in ("flow", "topic", "partition", "as", "count")}

        def link(place: LogPlace) -> str:
            query = {**fixed, "place": place.kind.value, "value": str(place.value)}
            return f"{self._site.root}/records?" + "&".join(f"{name}={quoted(text)}" for name, text in query.items())

        before = max(page.log_start, page.start - data["count"])
        following = page.next_offset
        return {
            "earlier": link(LogPlace(LogPlaceKind.OFFSET, before)) if page.start > page.log_start else None,
            "later": None if following is None else link(LogPlace(LogPlaceKind.OFFSET, following)),
        }


def _shown_page(page: RecordPage, form: str, links: dict[str, str | None]) -> dict[str, Any]:
    return {
        "remote_topic": page.remote.topic,
        "start": page.start,
        "log_start": page.log_start,
        "log_end": page.log_end,
        "pairs": [_shown_pair(one, form) for one in page.pairs[:MOST_RECORDS]],
        **links,
    }


def _shown_pair(pair: RecordPair, form: str) -> dict[str, Any]:
    return {
        "source": _shown_record(pair.source, form),
        "copy": _shown_record(pair.copy, form),
        "differences": list(pair.differences),
        "reason": pair.reason,
    }


def _shown_record(record: Record | None, form: str) -> dict[str, Any] | None:
    if record is None:
        return None
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp if record.timestamp >= 0 else None,
        "key": shown_bytes(record.key, form),
        "value": shown_bytes(record.value, form),
        "headers": [{"name": name, "value": shown_bytes(value, form)} for name, value in record.headers[:MOST_HEADERS]],
        "more_headers": max(0, len(record.headers) - MOST_HEADERS),
    }


def shown_bytes(data: bytes | None, form: str) -> dict[str, Any]:
    """Bytes as text, as JSON with line breaks, or as hexadecimal digits; bytes of another form are shown as digits."""
    if data is None:
        return {"text": None, "form": "null", "bytes": 0, "cut": False}
    text, shown = "", form
    if form == "json":
        try:
            text = json.dumps(json.loads(data), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            shown = "text"
    if shown == "text":
        try:
            text = data.decode()
        except UnicodeDecodeError:
            shown = "hex"
    if shown == "hex":
        text = data[: SHOWN_BYTES // 3].hex(" ")
        return {"text": text, "form": shown, "bytes": len(data), "cut": len(data) > SHOWN_BYTES // 3}
    return {"text": text[:SHOWN_BYTES], "form": shown, "bytes": len(data), "cut": len(text) > SHOWN_BYTES}
