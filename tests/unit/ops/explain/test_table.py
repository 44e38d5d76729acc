"""The table of messages: unique ids, whole entries, commands that exist, and the message of a log line."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from itertools import pairwise

import pytest
import typer.main

from scripts.check_docs import wrong_command
from twinlog.cli.main import app
from twinlog.errors.message_ids import ID
from twinlog.ops.explain.message import Area, Message
from twinlog.ops.explain.table import AREAS, MESSAGES, PAGES, messages_in, near_ids, page_of

ENTRIES = [(area, message) for area in AREAS.values() for message in area.messages]


def test_ids_are_unique_well_formed_and_of_their_area() -> None:
    ids = Counter(message.id for _, message in ENTRIES)
    assert [name for name, count in ids.items() if count > 1] == []
    assert [name for name in ids if ID.fullmatch(name) is None] == []
    assert [message.id for area, message in ENTRIES if message.area != area.name] == []
    assert len(AREAS) == sum(len(page.areas) for page in PAGES)


def test_ids_of_an_area_are_in_their_order() -> None:
    for area in AREAS.values():
        assert all(one.id < other.id for one, other in pairwise(area.messages))


@pytest.mark.parametrize(("area", "message"), ENTRIES, ids=lambda entry: getattr(entry, "id", ""))
def test_an_entry_answers_every_question(area: Area, message: Message) -> None:
    assert message.lines
    assert all(re.fullmatch(r"`[^`]+`", line) for line in message.lines)
    # Title and lines of some messages say all.
    meaning = [message.meaning] if message.meaning else []
    for text in (*meaning, message.impact, message.mend, area.escalation_of(message), area.about):
        assert text.endswith((".", "?", ")", "!")), text
        assert text.count("`") % 2 == 0
    assert not message.title.endswith(".")
    assert area.looks_of(message)


def test_the_commands_to_look_with_exist() -> None:
    cli = typer.main.get_command(app)
    wrong = {}
    for area, message in ENTRIES:
        for command in area.looks_of(message):
            found = wrong_command(shlex.split(command.partition(" | ")[0]), cli, set())
            if found:
                wrong[message.id] = f"{command}: {found}"
    assert wrong == {}


def test_commands_in_the_texts_exist() -> None:
    cli = typer.main.get_command(app)
    wrong = {}
    for _, message in ENTRIES:
        for text in (message.meaning, message.impact, message.mend):
            for command in re.findall(r"`(twinlog [^`]+)`", text):
                found = wrong_command(shlex.split(command), cli, set())
                if found:
                    wrong[message.id] = f"{command}: {found}"
    assert wrong == {}


def test_commands_for_topics_name_a_flow_because_a_file_may_have_several() -> None:
    texts = [text for _, message in ENTRIES for text in (message.meaning, message.impact, message.mend)]
    commands = [one for text in texts for one in re.findall(r"`(twinlog topics (?!list )[a-z-]+ [^`]+)`", text)]
    assert len(commands) > 5
    assert [one for one in commands if "--flow east:west" not in one] == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "2026-11-29 08:00:00,123 ERROR TW-GAP-01: east->west: orders-3 is held at source offset 5000: deleted",
            ["TW-GAP-01"],
        ),
        ("mm2.properties:9: error: east->west.enabled: 'yes'; expected true or false [TW-FILE-22]", ["TW-FILE-22"]),
        ("WARNING east->west: cannot write checkpoints, trying again: no answer", ["TW-FLOW-04"]),
        ("WARNING east->west: copier 3 is silent, its partitions are given to another", ["TW-LEASE-01"]),
        ("INFO east->west: group billing is in use on west, its offsets there are left alone", ["TW-GROUP-03"]),
        ("INFO a line of another program", []),
        ("TW-GAP-99: of a later version", []),
        ("TW-GAP-02: one\nTW-NET-01: two\nTW-GAP-02: again", ["TW-GAP-02", "TW-NET-01"]),
    ],
)
def test_lines_mean_messages(line: str, found: list[str]) -> None:
    assert [message.id for message in messages_in(line)] == found


@pytest.mark.parametrize(
    ("unknown", "near"),
    [("TW-GAP-04", "TW-GAP-03"), ("TW-GPA-01", "TW-GAP-01"), ("gap-1", "TW-GAP-01"), ("TW-HOLD-01", "TW-HELD-01")],
)
def test_an_unknown_id_has_near_ones(unknown: str, near: str) -> None:
    assert near in near_ids(unknown)


def test_every_message_is_on_a_page() -> None:
    assert {page_of(message).name for message in MESSAGES.values()} == {page.name for page in PAGES}
