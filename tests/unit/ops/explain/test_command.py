"""`twinlog explain`: an entry, the list, JSON, a log line, and the exit codes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from twinlog.cli.main import app
from twinlog.ops.explain.table import MESSAGES


def explain(*words: str, lines: str | None = None) -> Result:
    return CliRunner().invoke(app, ["explain", *words], input=lines)


@pytest.mark.parametrize("word", ["TW-GAP-01", "tw-gap-01", "gap-01"])
def test_an_entry_has_all_answers(word: str) -> None:
    result = explain(word)
    assert result.exit_code == 0
    head, *rest = result.stdout.splitlines()
    assert head == "TW-GAP-01: Records were deleted before they were copied (error)"
    sections = [line.split()[0] for line in rest if line[2:3].strip()]
    assert sections == ["Line", "Meaning", "Impact", "Look", "Mend", "Escalate", "Page"]
    assert "$ twinlog status mm2.properties" in result.stdout
    assert "docs/messages/held.md#tw-gap-01" in result.stdout


def test_several_ids_and_an_area() -> None:
    result = explain("TW-NET-01", "GAP")
    assert result.exit_code == 0
    heads = [line.partition(":")[0] for line in result.stdout.splitlines() if line.startswith("TW-")]
    assert heads == ["TW-NET-01", "TW-GAP-01", "TW-GAP-02", "TW-GAP-03"]


def test_without_an_id_it_lists_all() -> None:
    result = explain()
    assert result.exit_code == 0
    ids = [line.split()[0] for line in result.stdout.splitlines()[1:]]
    assert ids == list(MESSAGES)


def test_json() -> None:
    result = explain("TW-GAP-01", "-o", "json")
    (entry,) = json.loads(result.stdout)
    assert entry["id"] == "TW-GAP-01"
    assert entry["severity"] == "error"
    assert {"title", "lines", "meaning", "impact", "look", "mend", "escalate", "page"} <= entry.keys()
    assert "](" not in result.stdout
    everything = json.loads(explain("-o", "json").stdout)
    assert [entry["id"] for entry in everything] == list(MESSAGES)


def test_an_unknown_id_names_near_ones() -> None:
    result = explain("TW-GAP-01", "TW-GAP-09")
    assert result.exit_code == 2
    assert result.stdout.startswith("TW-GAP-01: ")
    assert "TW-GAP-09 is an unknown id; near it are TW-GAP-0" in result.stderr


def test_a_log_line_as_argument_and_on_stdin() -> None:
    line = "2026-11-29 08:00:00,123 ERROR TW-GAP-02: east->west: orders-3 is held at source offset 5: cut back"
    for result in (explain(line), explain(*line.split()), explain("-", lines=f"INFO other\n{line}\n{line}\n")):
        assert result.exit_code == 0
        assert [text for text in result.stdout.splitlines() if text.startswith("TW-")] == [
            "TW-GAP-02: The source log was cut back (error)"
        ]


def test_lines_without_a_message() -> None:
    result = explain("-", lines="INFO other\n")
    assert result.exit_code == 2
    assert "the lines of stdin have neither a known id" in result.stderr


@pytest.mark.parametrize("words", [["TwinlogGap"], ["twinloggap"], ["[FIRING:1] TwinlogGap (east->west critical)"]])
def test_an_alert_leads_to_its_message(words: list[str]) -> None:
    result = explain(*words)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("TW-GAP-01: ")


@pytest.mark.parametrize(
    ("word", "offer"),
    [
        ("TwinlogDwon", "did you mean TwinlogDown?"),
        ("gaps", "did you mean the area GAP?"),
        ("lag", "did you mean TW-ALERT-06 (The lag of partitions is unknown)?"),
        ("xyzzy", "neither an id nor an alert; twinlog explain without an id lists all ids"),
    ],
)
def test_an_unknown_word_names_near_ones(word: str, offer: str) -> None:
    result = explain(word)
    assert result.exit_code == 2
    assert offer in result.stderr
