"""Answers as they are kept and as they compare."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance import compare
from conformance.compare import between, idle, with_golden
from conformance.golden import Kept, facts, golden_file, read, write
from harness.checks.differences import Known, readable

JSON = {"Content-Type": "application/json"}
KEPT = [
    Kept("list", "GET /connectors", 200, JSON, ["a", "b"]),
    Kept("one", "GET /connectors/a", 200, JSON, {"name": "ü", "tasks": [{"id": 0}], "config": {}, "none": None}),
    Kept("gone", "DELETE /connectors/a", 204, {}, None, "status 404"),
]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = golden_file("1.0", "connectors", tmp_path)
    write(KEPT, file)
    assert read(file) == KEPT
    assert "ü" in file.read_text(encoding="utf-8")


def test_every_leaf_is_a_fact() -> None:
    assert facts("connectors", KEPT) == {
        "connectors / list: request": "GET /connectors",
        "connectors / list: status": "200",
        "connectors / list: header Content-Type": "application/json",
        "connectors / list: body": '["a", "b"]',
        "connectors / one: request": "GET /connectors/a",
        "connectors / one: status": "200",
        "connectors / one: header Content-Type": "application/json",
        "connectors / one: body.name": '"ü"',
        "connectors / one: body.tasks[0].id": "0",
        "connectors / one: body.config": "{}",
        "connectors / one: body.none": "null",
        "connectors / gone: request": "DELETE /connectors/a",
        "connectors / gone: status": "204",
        "connectors / gone: waited in vain for": "status 404",
        "connectors / gone: body": "null",
    }


def test_every_line_of_a_message_is_a_fact() -> None:
    kept = Kept("wrong", "PUT /", 400, {}, {"message": "two errors:\na\n\nb"})
    assert {fact: value for fact, value in facts("r", [kept]).items() if "message" in fact} == {
        "r / wrong: body.message": '"two errors:"',
        "r / wrong: body.message line 2": '"a"',
        "r / wrong: body.message line 3": '""',
        "r / wrong: body.message line 4": '"b"',
    }


def test_a_number_is_not_its_text_and_null_is_not_absent() -> None:
    number, text, null, absent = (
        [Kept("x", "GET /", 200, {}, body)] for body in ({"a": 1}, {"a": "1"}, {"a": None}, {})
    )
    assert facts("r", number) != facts("r", text)
    assert facts("r", null) != facts("r", absent)


def test_a_worker_that_answers_otherwise_is_told_by_call_and_place(tmp_path: Path) -> None:
    write(KEPT, golden_file("1.0", "connectors", tmp_path))
    other = [*KEPT[:1], Kept("one", "GET /connectors/a", 200, JSON, {**KEPT[1].body, "name": "b"}), *KEPT[2:]]
    assert readable(with_golden("1.0", "connectors", other, home=tmp_path), "golden", "now").splitlines() == [
        "connectors / one: body.name",
        '    golden  "ü"',
        '    now     "b"',
    ]
    assert not with_golden("1.0", "connectors", KEPT, home=tmp_path)


def test_a_worker_may_differ_from_the_release_that_it_follows_where_that_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(KEPT, golden_file("1.0", "r", tmp_path))
    other = [*KEPT[:2], Kept("gone", "DELETE /connectors/a", 204, {"X-Own": "1"}, None, "status 404")]
    monkeypatch.setattr(compare, "MEANT", {("1.0", "own"): [Known(r"r / gone: header X-Own", "its own")]})
    assert not with_golden("1.0", "r", other, "own", tmp_path)
    assert len(with_golden("1.0", "r", other, home=tmp_path)) == 1


def test_what_was_never_recorded_differs_in_everything(tmp_path: Path) -> None:
    found = with_golden("1.0", "connectors", KEPT, home=tmp_path)
    assert {difference.one for difference in found} == {None}


def test_meant_differences_are_left_out_and_idle_explanations_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(KEPT, golden_file("1.0", "r", tmp_path))
    write([*KEPT[:2], Kept("gone", "DELETE /connectors/a", 404, {}, None)], golden_file("2.0", "r", tmp_path))
    assert len(between("1.0", "2.0", ["r"], tmp_path)) == 2
    known = [Known(r"r / gone: .*", "gone twice"), Known(r"r / never: .*", "nothing")]
    monkeypatch.setattr(compare, "MEANT", {("1.0", "2.0"): known})
    assert not between("1.0", "2.0", ["r"], tmp_path)
    assert idle("1.0", "2.0", ["r"], tmp_path) == known[1:]


def test_an_explanation_may_say_what_the_sides_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write([Kept("gone", "DELETE /a", 500, {}, None)], golden_file("1.0", "r", tmp_path))
    known = [
        Known(".*: status", "its caller's fault", one="500", other="400"),
        Known(".*: header X", "its own", one=""),
    ]
    monkeypatch.setattr(compare, "MEANT", {("1.0", "own"): known})
    for status, header, wrong in ((400, {"X": "1"}, 0), (404, {}, 1), (500, {"Y": "1"}, 1)):
        kept = [Kept("gone", "DELETE /a", status, header, None)]
        assert len(with_golden("1.0", "r", kept, "own", tmp_path)) == wrong


def test_what_is_meant_not_to_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "MEANT", {("1.0", "own"): [Known("r / late: .*", "it never does")]})
    assert compare.is_late("1.0", "own", "r", "late")
    assert not compare.is_late("1.0", "own", "r", "early")
    assert not compare.is_late("1.0", "1.0", "r", "late")
