"""Commands for a topic from its page: the effect first, then a confirmation, then the outcome.

The commands are those of `twinlog topics`, by the same reader. The page with the effect only reads; the form on it
writes the command, and has an id, so that a form that is sent twice is a single command.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from twinlog.errors import RequestError
from twinlog.model.amounts import read_moment
from twinlog.model.topics import is_legal_topic
from twinlog.ops.topics.reader import TopicsReader
from twinlog.ops.topics.text import command_json, costs, moves_json, outcome_json
from twinlog.ui.audit import audit
from twinlog.ui.pages.topics.topic import TopicPage
from twinlog.ui.rendering import ConsolePage, quoted
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import Visit, page_routes, with_mistake
from twinlog.worker.control.model import CommandOutcome, LogPlace, LogPlaceKind, PartitionMove, TopicCommand, TopicVerb

MOST_MOVES = 50
"""Partitions that the effect and the outcome name."""

_LONGEST_ID = 64


@dataclass(frozen=True, slots=True)
class TopicAction:
    """A command for partitions of a topic as a form has it."""

    flow: str
    topic: str
    verb: TopicVerb
    partitions: tuple[int, ...]
    place: LogPlace | None
    fields: Mapping[str, str]

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> TopicAction:
        """Read the fields of a form, or the parameters of a URL. Raises RequestError 400 with the wrong field."""
        kept = {
            name: fields.get(name, "").strip() for name in ("flow", "topic", "verb", "partitions", "place", "value")
        }
        if not kept["topic"]:
            raise RequestError(400, "The topic is missing.")
        if not is_legal_topic(kept["topic"]):
            # A pattern would select several topics by a form that names a single topic.
            raise RequestError(400, f"A topic is unable to have the name {kept['topic']!r}.")
        try:
            verb = TopicVerb(kept["verb"])
        except ValueError:
            known = ", ".join(TopicVerb)
            raise RequestError(400, f"The action {kept['verb']!r} is unknown; the actions are {known}.") from None
        place = log_place(kept["place"], kept["value"]) if verb.needs_place else None
        return cls(kept["flow"], kept["topic"], verb, partition_numbers(kept["partitions"]), place, kept)

    @property
    def pattern(self) -> str:
        """The expression that only the topic's name matches: a plain dot would match any character."""
        return self.topic.replace(".", "[.]")

    def command(self, reader: TopicsReader, command_id: str, by: str) -> TopicCommand:
        """The command of this form, for exactly this topic. Raises OptionError if the flow leaves the topic out."""
        selectors = reader.selectors([self.pattern], self.partitions, partitions_by_name=False)
        return TopicCommand(command_id, self.verb, selectors, self.place, by=by)


def partition_numbers(text: str) -> tuple[int, ...]:
    """The numbers of partitions in a field of a form, in order. Raises RequestError 400."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise RequestError(400, f"Write partitions as numbers with commas between, for example 0, 3; found {text!r}.")
    return tuple(sorted({int(part) for part in parts}))


def log_place(kind: str, value: str) -> LogPlace:
    """The place that two fields of a form name. Raises RequestError 400."""
    if kind in (LogPlaceKind.EARLIEST, LogPlaceKind.LATEST):
        return LogPlace(LogPlaceKind(kind))
    if kind == LogPlaceKind.OFFSET:
        if value.isascii() and value.isdecimal() and len(value) < 19:
            return LogPlace(LogPlaceKind.OFFSET, int(value))
        raise RequestError(400, f"Write the offset as a number; found {value!r}.")
    if kind == LogPlaceKind.TIME:
        try:
            moment = read_moment(value[:100])
        except OverflowError as error:
            raise RequestError(400, f"The time is wrong: {error}.") from None
        if moment is not None:
            return LogPlace(LogPlaceKind.TIME, moment)
        raise RequestError(400, f"The time {value!r} is unknown; write 2026-11-20T08:00:00Z, or ms since 1970.")
    raise RequestError(400, "Choose a place: the first record, the end, an offset, or a time.")


class TopicActionPages:
    """`/ui/topic/confirm`, `/ui/topic/act` and `/ui/topic/outcome`."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        return [
            *page_routes(self._site, "/topic/confirm", self.confirm),
            *page_routes(self._site, "/topic/act", None, self.act),
            *page_routes(self._site, "/topic/outcome", self.outcome),
        ]

    async def confirm(self, visit: Visit) -> ConsolePage:
        """The effect of a command on each partition, and the form that writes the command."""
        self._site.require_actions()
        try:
            action = TopicAction.of(visit.request.query_params)
        except RequestError as mistake:
            return await self._corrected(visit, mistake)
        threads = self._site.threads.of_flow(self._site.sources.flow(action.flow))
        data = await threads.run(lambda: self._effect(action, visit))
        return _confirm_page(action, data)

    async def act(self, visit: Visit) -> ConsolePage | Response:
        """Write the command, wait a moment for its outcome, and lead to the page of the outcome."""
        self._site.require_actions()
        action = TopicAction.of(visit.form)
        threads = self._site.threads.of_flow(self._site.sources.flow(action.flow))
        command_id = visit.form.get("id", "")
        if not command_id or len(command_id) > _LONGEST_ID:
            raise RequestError(400, "The form lacks the id of its command.")
        if action.verb.moves and visit.form.get("typed", "").strip() != action.topic:
            mistake = RequestError(400, f"The command was dropped: type the name {action.topic} to confirm it.")
            data = await threads.run(lambda: self._effect(action, visit))
            return with_mistake(_confirm_page(action, data), mistake)
        facts = {"flow": action.flow, "topic": action.topic, "id": command_id}
        try:
            outcome = await threads.run(lambda: self._submit(action, command_id, visit))
        except Exception as error:
            audit(visit.user, visit.address, action.verb.value, **facts, outcome=type(error).__name__)
            raise
        place = "-" if action.place is None else str(action.place)
        partitions = ",".join(map(str, action.partitions)) or "all"
        facts |= {"place": place, "partitions": partitions}
        audit(visit.user, visit.address, action.verb.value, **facts, outcome=outcome.result.value)
        live = self._site.live.flow(action.flow)
        live.topics.hurry()
        live.state.hurry()
        query = "&".join(f"{name}={quoted(facts[name])}" for name in ("flow", "topic", "id"))
        return RedirectResponse(f"{self._site.root}/topic/outcome?{query}", 303)

    async def outcome(self, visit: Visit) -> ConsolePage:
        """The outcome of a command until now. Raises RequestError 404 for an unknown id."""
        flow, topic, command_id = visit.query("flow"), visit.query("topic"), visit.query("id")
        threads = self._site.threads.of_flow(self._site.sources.flow(flow))
        found = await threads.run(lambda: self._find(flow, command_id))
        if found is None:
            raise RequestError(404, f"Flow {flow} lacks the command {command_id!r}; done commands are kept for a week.")
        moves = list(found.moves or ())
        data = {
            "flow": flow,
            "topic": topic,
            **outcome_json(found, moves=False),
            "over": found.result.over,
            "effect": costs(moves, done=found.result.over) if found.command.verb.moves and moves else None,
            **_moves(moves),
        }
        title = f"{found.command.verb.value} {topic}"
        return ConsolePage("outcome.html", "topics", title, data, live=(f"topics:{flow}",))

    async def _corrected(self, visit: Visit, mistake: RequestError) -> ConsolePage:
        """The page of the topic with the form and its mistake. Raises the mistake if the topic itself is wrong."""
        try:
            page = await TopicPage(self._site).show(visit)
        except RequestError:
            raise mistake from None
        return with_mistake(page, mistake)

    def _effect(self, action: TopicAction, visit: Visit) -> dict[str, Any]:
        with self._site.sources.open_topics(action.flow) as reader:
            asked = reader.read_asked()
            command = action.command(reader, uuid.uuid4().hex[:12], _by(visit))
            moves = reader.preview(command)
            redundant = reader.is_redundant(command, asked)
        changes = any(move.changes for move in moves) if command.verb.moves else not redundant
        return {
            "fields": dict(action.fields),
            "flow": action.flow,
            "topic": action.topic,
            "command": str(command),
            **command_json(command),
            "changes": changes,
            "moves_records": command.verb.moves,
            "effect": costs(moves) if command.verb.moves else None,
            **_moves(moves),
        }

    def _submit(self, action: TopicAction, command_id: str, visit: Visit) -> CommandOutcome:
        with self._site.sources.open_topics(action.flow) as reader:
            reader.read_asked()
            outcome = reader.submit_command(action.command(reader, command_id, _by(visit)))
            if not outcome.result.over and reader.read_state().runs:
                outcome = reader.wait(outcome, self._site.settings.action_s)
        return outcome

    def _find(self, flow: str, command_id: str) -> CommandOutcome | None:
        with self._site.sources.open_topics(flow) as reader:
            return reader.read_asked().outcome(command_id)


def _confirm_page(action: TopicAction, data: dict[str, Any]) -> ConsolePage:
    return ConsolePage("confirm.html", "topics", f"{action.verb.value} {action.topic}", data)


def _moves(moves: list[PartitionMove]) -> dict[str, Any]:
    """The moves with a cost first, and the sums of all."""
    ordered = sorted(moves, key=lambda move: (not move.changes, -move.passed, -move.repeated, move.partition))
    return {
        "partitions": len(moves),
        "passed_over": sum(move.passed for move in moves),
        "copied_again": sum(move.repeated for move in moves),
        "moves": moves_json(ordered[:MOST_MOVES]),
        "more_moves": max(0, len(moves) - MOST_MOVES),
    }


def _by(visit: Visit) -> str:
    return f"{visit.user or 'console'} at {visit.address}"
