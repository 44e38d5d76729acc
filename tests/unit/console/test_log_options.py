"""Each line of the log as an object: id, flow, topic and partition leave or explain the text."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from twinlog.console.log_options import JsonFormatter, LogFormat, LogOptions, json_line
from twinlog.model.types import TopicName, TopicPartition

PART = TopicPartition(TopicName("orders"), 3)


def line(text: str, *args: object, topics: tuple[str, ...] = ()) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json_line("error", text % args, args, topics))
    assert found.pop("time").endswith("Z")
    assert found.pop("level") == "error"
    return found


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (line("stopping (%s)", "SIGTERM"), {"text": "stopping (SIGTERM)"}),
        (
            line("TW-GAP-01: east->west: %s is held at source offset %d: deleted", PART, 5),
            {"id": "TW-GAP-01", "flow": "east->west", "topic": "orders", "partition": 3}
            | {"text": "orders-3 is held at source offset 5: deleted"},
        ),
        (
            line("TW-GAP-01: east->west: orders-3 is held at source offset 5: deleted"),
            {"id": "TW-GAP-01", "flow": "east->west", "topic": "orders", "partition": 3}
            | {"text": "orders-3 is held at source offset 5: deleted"},
        ),
        (
            line("f:4: error: a->b.enabled: 'x' [TW-FILE-03]"),
            {"id": "TW-FILE-03", "text": "f:4: error: a->b.enabled: 'x'"},
        ),
        (line("see TW-GAP-01 for more"), {"text": "see TW-GAP-01 for more"}),
        (
            line("a->b: created: t, u", topics=("t", "u")),
            {"flow": "a->b", "topics": ["t", "u"], "text": "created: t, u"},
        ),
        (line("a->b: created: t", topics=("t",)), {"flow": "a->b", "topic": "t", "text": "created: t"}),
        (line("line\nline"), {"text": "line\nline"}),
    ],
)
def test_a_line_has_its_facts(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found == expected


def test_a_log_record_is_a_single_line_with_its_trace() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("twinlog", logging.WARNING, "f", 1, "a->b: %s: broken", (PART,), sys.exc_info())
    shown = JsonFormatter().format(record)
    assert "\n" not in shown
    found = json.loads(shown)
    assert (found["level"], found["flow"], found["topic"], found["partition"]) == ("warning", "a->b", "orders", 3)
    assert found["trace"].endswith("ValueError: two\nlines")


def test_levels_follow_the_options() -> None:
    usual, loud, still = LogOptions(), LogOptions(verbose=True), LogOptions(LogFormat.JSON, quiet=True)
    assert [one.level(logging.INFO) for one in (usual, loud, still)] == [logging.INFO, logging.DEBUG, logging.WARNING]
    # What a command prints itself stays out of its log.
    assert still.level(logging.CRITICAL) == logging.CRITICAL
