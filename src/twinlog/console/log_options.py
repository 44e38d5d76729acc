"""The options of the log, `-v`, `-q` and `--log-format`, for this process, and its lines as JSON.

A JSON line is an object with time, level, text and, if they are known, id, flow, topic and partition. The id and the
flow leave the text: `TW-GAP-01: east->west: orders-3 is held` has the text `orders-3 is held`.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from twinlog.clock import SYSTEM
from twinlog.errors.message_ids import ID
from twinlog.model.types import TopicPartition

_FLOW = re.compile(r"(\S+->[^\s:,]+): ")
_ID = re.compile(rf"({ID.pattern}): |\s?\[({ID.pattern})\]")
_PARTITION = re.compile(r"(?:partition )?([\w.-]+)-(\d+)(?=: | is held\b)")


def json_line(level: str, text: str, args: Iterable[object] = (), topics: Iterable[str] = ()) -> str:
    """A line with the present time. `args` are the values in the text: a partition among them names its topic."""
    line: dict[str, Any] = {"time": _now(), "level": level}
    found = _ID.search(text)
    if found is not None:
        line["id"] = found[1] or found[2]
        text = f"{text[: found.start()]}{text[found.end() :]}".strip()
    flow = _FLOW.match(text)
    if flow is not None:
        line["flow"] = flow[1]
        text = text[flow.end() :]
    partition = next((one for one in args if isinstance(one, TopicPartition)), None)
    named = None if partition is not None else _PARTITION.match(text)
    if partition is not None:
        line |= {"topic": partition.topic, "partition": partition.partition}
    elif named is not None:
        line |= {"topic": named[1], "partition": int(named[2])}
    elif topics := list(topics):
        line |= {"topic": topics[0]} if len(topics) == 1 else {"topics": topics}
    return json.dumps({**line, "text": text}, ensure_ascii=False)


def _now() -> str:
    return datetime.fromtimestamp(SYSTEM.wall(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JsonFormatter(logging.Formatter):
    """Writes a log record as a JSON line; the trace of an exception is its field `trace`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        args = record.args if isinstance(record.args, tuple) else ()
        line = json_line(record.levelname.lower(), record.getMessage(), args, getattr(record, "of", ()))
        if record.exc_info:
            return json.dumps({**json.loads(line), "trace": self.formatException(record.exc_info)}, ensure_ascii=False)
        return line


class LogFormat(StrEnum):
    """The form of each line on stderr."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The options of the log, for this process."""

    format: LogFormat = LogFormat.TEXT
    verbose: bool = False
    quiet: bool = False

    def level(self, usual: int) -> int:
        """The level of the log, which is `usual` without options."""
        return logging.DEBUG if self.verbose else max(usual, logging.WARNING) if self.quiet else usual

    def formatter(self, text: str) -> logging.Formatter:
        """The form of a log line, which is `text` without options."""
        return JsonFormatter() if self.format is LogFormat.JSON else logging.Formatter(text)


_choice = LogOptions()


def choose_log(form: LogFormat, *, verbose: bool, quiet: bool) -> None:
    """Set the form and the amount of the lines on stderr, before the first of them."""
    global _choice  # noqa: PLW0603 - stderr is the process's own
    _choice = LogOptions(form, verbose, quiet)


def chosen_log() -> LogOptions:
    """The options of the log of this process."""
    return _choice


def shows_progress() -> bool:
    """Whether stderr takes bars, tables and notes, which are for people who wait."""
    return not _choice.quiet and _choice.format is LogFormat.TEXT
