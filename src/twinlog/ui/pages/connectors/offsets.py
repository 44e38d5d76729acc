"""The stored offsets of a connector: altered or deleted once the connector is stopped, after a look at the effect.

The requests are those of `twinlog connectors offsets` (KIP-875).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from twinlog.config.connector import connector_kind
from twinlog.errors import RequestError
from twinlog.model.amounts import LAST, counted
from twinlog.ops.connectors.offsets import Entry
from twinlog.ops.connectors.rest import ConnectRest
from twinlog.settings.flow import ConnectorKind
from twinlog.ui.audit import audit
from twinlog.ui.pages.connectors.connectors import MOST_OFFSETS, connector_status
from twinlog.ui.rendering import ConsolePage, quoted
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import Visit, page_routes

T = TypeVar("T")

ALTER, RESET = "alter", "reset"
STOPPED = "STOPPED"
EXAMPLE = '{"partition": {"cluster": "east", "topic": "orders", "partition": 3}, "offset": {"offset": 1200}}'

_RESET_EFFECTS: Mapping[ConnectorKind | None, str] = {
    "source": "At its next start the connector copies everything again, and the target has these records twice.",
    "checkpoint": "The connector stores them again after its next start; checkpoints and records stay as they are.",
    "heartbeat": "The connector stores them again after its next start; heartbeats and records stay as they are.",
    None: "At its next start the connector begins as a new connector does.",
}


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """The stored offset of a partition, and the offset that replaces it; None is an absent offset."""

    partition: Mapping[str, Any]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def passed_over(self) -> int:
        """The source offsets between both; a negative number is the count of offsets that are copied again."""
        before, after = _number(self.before), _number(self.after)
        return 0 if before is None or after is None else after - before

    def effect_on(self, kind: ConnectorKind | None) -> str:
        """The effect on the records of the partition; "" for a connector that copies none, or an odd offset."""
        if kind != "source":
            return ""
        if self.after is None:
            return "begins at its first record"
        number, count = _number(self.after), self.passed_over
        if number is None:
            return ""
        if _number(self.before) is None:
            return f"continues after source offset {number}"
        return f"{counted(abs(count), 'source offset')} {'passed over' if count > 0 else 'copied again'}"


@dataclass(frozen=True, slots=True)
class OffsetsReading:
    """A connector with its state and its stored offsets; `kind` is None for a class outside MirrorMaker 2's three."""

    name: str
    kind: ConnectorKind | None
    state: str
    offsets: Sequence[Entry]

    @classmethod
    def read(cls, rest: ConnectRest, name: str) -> OffsetsReading:
        """Ask the worker. Raises RequestError 404 for an unknown connector, and if the worker lacks KIP-875."""
        config, status = rest.get("connectors", name, "config"), connector_status(rest, name)
        state = "?" if status is None else str(status["connector"]["state"])
        offsets = rest.get("connectors", name, "offsets")["offsets"]
        return cls(name, connector_kind(config.get("connector.class") or ""), state, offsets)

    @property
    def obstacle(self) -> str:
        """The reason why offsets are fixed now, "" for a stopped connector."""
        if self.state == STOPPED:
            return ""
        return f"{self.name} is {self.state}, and its offsets are fixed until it is {STOPPED}: stop it first."

    def changes_by(self, entries: Sequence[Entry]) -> list[OffsetChange]:
        """The entries that differ from the stored offsets."""
        stored = {_key(entry["partition"]): entry["offset"] for entry in self.offsets}
        found = [
            OffsetChange(entry["partition"], stored.get(_key(entry["partition"])), entry["offset"]) for entry in entries
        ]
        return [change for change in found if change.before != change.after]


class ConnectorOffsetsPages:
    """`/ui/connector/offsets?name=NAME`, `/ui/connector/offsets/reset?name=NAME`, and `/ui/connector/offsets/act`."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        return [
            *page_routes(self._site, "/connector/offsets", self.show, self.confirm_alter),
            *page_routes(self._site, "/connector/offsets/reset", self.confirm_reset),
            *page_routes(self._site, "/connector/offsets/act", None, self.act),
        ]

    async def show(self, visit: Visit) -> ConsolePage:
        """The stored offsets as lines to alter, and the way to stop a connector that runs."""
        reading = await self._read(visit, visit.query("name"))
        lines = "\n".join(json.dumps(entry) for entry in reading.offsets[:MOST_OFFSETS])
        return _form(reading, lines, ())

    async def confirm_alter(self, visit: Visit) -> ConsolePage:
        """The effect of altered lines, and the form that sends them; wrong lines come back."""
        reading = await self._read(visit, visit.form.get("name", ""))
        text = visit.form.get("lines", "")
        entries, mistakes = read_offset_lines(text)
        changes = [] if mistakes else reading.changes_by(entries)
        if not mistakes and not changes:
            mistakes = ["The lines are the same as the stored offsets: there is nothing to alter."]
        if reading.obstacle:
            mistakes = [reading.obstacle, *mistakes]
        if mistakes:
            return _form(reading, text, mistakes)
        effect = f"At its next start {reading.name} continues after these offsets; all other stored offsets stay."
        return _confirmation(reading, ALTER, effect, changes)

    async def confirm_reset(self, visit: Visit) -> ConsolePage:
        """The effect of a reset, and the form that sends it. Raises RequestError 409 for a connector that runs."""
        reading = await self._read(visit, visit.query("name"))
        if reading.obstacle:
            raise RequestError(409, reading.obstacle)
        deleted = f"All {counted(len(reading.offsets), 'stored offset')} of {reading.name} are deleted."
        changes = [OffsetChange(entry["partition"], entry["offset"], None) for entry in reading.offsets]
        return _confirmation(reading, RESET, f"{deleted} {_RESET_EFFECTS[reading.kind]}", changes)

    async def act(self, visit: Visit) -> Response:
        """Alter or delete offsets, and lead to the page of the connector, which resumes it."""
        rest = self._rest(visit)
        name, verb = visit.form.get("name", ""), visit.form.get("verb", "")
        if verb not in (ALTER, RESET):
            raise RequestError(400, f"The action {verb!r} is unknown; the actions are {ALTER} and {RESET}.")
        if not name or visit.form.get("typed", "").strip() != name.strip():
            raise RequestError(400, f"The offsets stay: type the name {name} to confirm it.")
        entries, mistakes = read_offset_lines(visit.form.get("lines", "")) if verb == ALTER else ([], [])
        if mistakes:
            raise RequestError(400, mistakes[0])
        facts = {"connector": name, "partitions": str(len(entries)) if verb == ALTER else "all"}
        method, body = ("PATCH", {"offsets": entries}) if verb == ALTER else ("DELETE", None)
        try:
            await self._call(lambda: rest.send_request(method, "connectors", name, "offsets", body=body))
        except Exception as error:
            audit(visit.user, visit.address, f"{verb} offsets", **facts, outcome=type(error).__name__)
            raise
        audit(visit.user, visit.address, f"{verb} offsets", **facts, outcome="accepted")
        return RedirectResponse(f"{self._site.root}/connector?name={quoted(name)}", 303)

    async def _read(self, visit: Visit, name: str) -> OffsetsReading:
        rest = self._rest(visit)
        return await self._call(lambda: OffsetsReading.read(rest, name))

    def _rest(self, visit: Visit) -> ConnectRest:
        self._site.require_actions()
        return self._site.require_rest(visit.session.authorization)

    async def _call(self, call: Callable[[], T]) -> T:
        return await self._site.threads.connectors.run(call)


def read_offset_lines(text: str) -> tuple[list[Entry], list[str]]:
    """The entries in lines of JSON, each with `partition` and `offset`; or the mistakes, with the numbers of lines."""
    found: dict[str, Entry] = {}
    mistakes = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line, parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            mistakes.append(f"Line {number}: broken JSON: {error.msg}, at character {error.colno}.")
            continue
        except (ValueError, RecursionError):
            mistakes.append(f"Line {number}: a number is beyond JSON, or the JSON is nested too deep.")
            continue
        if not _is_entry(entry):
            mistakes.append(f"Line {number}: write a partition with its offset, or null as its offset: {EXAMPLE}")
        elif _key(entry["partition"]) in found:
            mistakes.append(f"Line {number}: an earlier line has the same partition.")
        else:
            found[_key(entry["partition"])] = entry
    if not found and not mistakes:
        mistakes.append(f"Write a line for each partition: {EXAMPLE}")
    return list(found.values()), mistakes


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is outside of JSON")


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and entry.keys() == {"partition", "offset"}
        and isinstance(entry["partition"], dict)
        and isinstance(entry["offset"], dict | None)
    )


def _key(partition: Mapping[str, Any]) -> str:
    return json.dumps(partition, sort_keys=True)


def _number(offset: Mapping[str, Any] | None) -> int | None:
    """The source offset of the last record that counts as copied; None if the offset is absent, or has another form."""
    found = None if offset is None else offset.get("offset")
    return found if isinstance(found, int) and not isinstance(found, bool) and abs(found) <= LAST else None


def _form(reading: OffsetsReading, lines: str, mistakes: Sequence[str]) -> ConsolePage:
    data = {
        "name": reading.name,
        "state": reading.state,
        "stopped": reading.state == STOPPED,
        "stored": len(reading.offsets),
        "more_offsets": max(0, len(reading.offsets) - MOST_OFFSETS),
        "lines": lines,
        "mistakes": list(mistakes[:MOST_OFFSETS]),
        "example": EXAMPLE,
    }
    title = f"Offsets of {reading.name}"
    return ConsolePage("connectors/offsets.html", "connectors", title, data, 400 if mistakes else 200)


def _confirmation(reading: OffsetsReading, verb: str, effect: str, changes: Sequence[OffsetChange]) -> ConsolePage:
    moves = [change.passed_over for change in changes] if reading.kind == "source" else []
    entries = [{"partition": change.partition, "offset": change.after} for change in changes]
    data = {
        "name": reading.name,
        "verb": verb,
        "effect": effect,
        "passed_over": sum(move for move in moves if move > 0),
        "copied_again": -sum(move for move in moves if move < 0),
        "changes": [
            {
                "partition": json.dumps(change.partition),
                "before": "none" if change.before is None else json.dumps(change.before),
                "after": "none" if change.after is None else json.dumps(change.after),
                "effect": change.effect_on(reading.kind),
            }
            for change in changes[:MOST_OFFSETS]
        ],
        "more_changes": max(0, len(changes) - MOST_OFFSETS),
        "lines": "\n".join(json.dumps(entry) for entry in entries) if verb == ALTER else "",
    }
    title = f"{'Alter' if verb == ALTER else 'Delete all'} offsets of {reading.name}"
    return ConsolePage("connectors/offsets_confirm.html", "connectors", title, data)
