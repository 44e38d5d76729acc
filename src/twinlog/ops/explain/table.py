"""All messages by id, and the message that a log line means."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from twinlog.errors.message_ids import ID
from twinlog.ops.explain.message import Area, Message, Page
from twinlog.ops.explain.pages import (
    alerts,
    command_line,
    commands,
    connections,
    files,
    flows,
    groups,
    held,
    positions,
    processes,
    proof,
    spark,
    topics,
    transforms,
    workers,
)
from twinlog.ops.explain.pages.alerts import ALERTS

PAGES: tuple[Page, ...] = (
    held.PAGE,
    proof.PAGE,
    flows.PAGE,
    connections.PAGE,
    topics.PAGE,
    positions.PAGE,
    groups.PAGE,
    processes.PAGE,
    spark.PAGE,
    transforms.PAGE,
    workers.PAGE,
    files.PAGE,
    commands.PAGE,
    command_line.PAGE,
    alerts.PAGE,
)
"""In the order of the documentation."""

AREAS: Mapping[str, Area] = {area.name: area for page in PAGES for area in page.areas}
MESSAGES: Mapping[str, Message] = {message.id: message for area in AREAS.values() for message in area.messages}

NEAR = 5
"""Ids that are offered for an unknown id."""

LEAST_LETTERS = 12
"""A line without an id means a message if it has pieces of the message's shape with so many letters."""

_ALERT = re.compile(r"\bTwinlog[A-Z]\w+")
_BY_LOWER_CASE = {name.lower(): name for name in ALERTS}

PLACEHOLDER = re.compile(r"\.\.\.|\b(?:east|west)\b[.\w]*|\b[A-Z][A-Z0-9_-]*\b(?!')|'T'|\b\d+\b|[:;,()]|->")
"""A part of a shape that differs from line to line; also punctuation."""


def page_of(message: Message) -> Page:
    """The page of the documentation with the message."""
    return next(page for page in PAGES for area in page.areas if area.name == message.area)


def of_alert(name: str) -> Message | None:
    """The message of an alert by the alert's name, for example `TwinlogDown`; None for any other word."""
    known = _BY_LOWER_CASE.get(name.strip().lower())
    return None if known is None else MESSAGES[ALERTS[known]]


def near_words(unknown: str) -> list[str]:
    """Alerts and areas that resemble an unknown word; else messages with this word in their titles."""
    word = unknown.strip().lower()
    near = [_BY_LOWER_CASE[name] for name in get_close_matches(word, _BY_LOWER_CASE, NEAR, 0.7)]
    near += [f"the area {area}" for area in get_close_matches(word.upper(), AREAS, 1, 0.7)]
    titled = [message for message in MESSAGES.values() if word in re.findall(r"\w+", message.title.lower())]
    return near or [f"{message.id} ({message.title})" for message in titled[:NEAR]]


def near_ids(unknown: str) -> list[str]:
    """Ids that resemble an unknown id: of the same area, else by their letters."""
    wanted = unknown.strip().upper()
    wanted = wanted if wanted.startswith("TW-") else f"TW-{wanted}"
    parts = wanted.split("-")
    area = parts[1] if len(parts) > 1 else ""
    if area not in AREAS:
        area = next(iter(get_close_matches(area, AREAS, 1, 0.7)), "")
    among = [message.id for message in AREAS[area].messages] if area else list(MESSAGES)
    return get_close_matches(wanted, among, NEAR, 0.0) if area else get_close_matches(wanted, among, NEAR, 0.6)


def messages_in(text: str) -> list[Message]:
    """The messages of the lines of a text: by ids and names of alerts, else the best fit by words."""
    found: dict[str, Message] = {}
    for line in text.splitlines():
        ids = [name for name in ID.findall(line) if name in MESSAGES]
        ids += [ALERTS[name] for name in _ALERT.findall(line) if name in ALERTS]
        fit = None if ids or ID.search(line) else by_words(line)
        for message in [MESSAGES[name] for name in ids] + ([] if fit is None else [fit]):
            found[message.id] = message
    return list(found.values())


def by_words(line: str) -> Message | None:
    """The message whose shape has the most letters in common with a line that lacks an id, as of an earlier version."""
    best, most = None, LEAST_LETTERS - 1
    for message in MESSAGES.values():
        for shape in message.shapes:
            pieces = pieces_of(shape)
            letters = sum(map(len, pieces))
            if letters > most and _in_order(pieces, line):
                best, most = message, letters
    return best


def pieces_of(shape: str) -> list[str]:
    """The pieces of a shape of two words or more, between its placeholders."""
    return [piece for piece in map(str.strip, PLACEHOLDER.split(shape)) if " " in piece]


def _in_order(pieces: Sequence[str], line: str) -> bool:
    at = 0
    for piece in pieces:
        at = line.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return bool(pieces)
