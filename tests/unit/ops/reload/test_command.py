"""What `twinlog reload` prints, and what it ends with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.config.files import kafkas_files
from twinlog.cli.main import app
from twinlog.config.keys.key import UpdateMode
from twinlog.ops.reload import command as module
from twinlog.ops.reload import requests as reloads
from twinlog.ops.reload.requests import ReloadAnswers
from twinlog.worker.reload.reload_report import ReloadedKey, ReloadReport

FILE = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"
TOPICS = ReloadedKey("f:5: topics = x (y before)", UpdateMode.AT_ONCE, ("a->b",))
TASKS = ReloadedKey("f:6: tasks.max = 2 (1 before)", UpdateMode.RESTART, ("a->b",))
LISTENS = ReloadedKey("f:7: twinlog.metrics.listeners = http://:1 (not written before)", UpdateMode.RESTART)
RETRY = ReloadedKey("f:8: errors.retry.timeout = 1 (not written before)", UpdateMode.NOTHING)


def report(**others: Any) -> ReloadReport:
    return ReloadReport("h-1", "f", "SIGHUP", 1, **others)


def test_each_process_tells_what_its_flows_do() -> None:
    asked = ReloadAnswers(
        (
            report(
                keys=(TOPICS, TASKS, LISTENS, RETRY),
                more_keys=2,
                flows={"a->b": "runs with its new settings", "b->a": "unchanged"},
            ),
            ReloadReport("h-2", "g", "SIGHUP", 1, flows={"a->b": "unchanged"}),
            ReloadReport("h-3", "g", "SIGHUP", 1, problems=("g:5: topics: wrong; write right",)),
        ),
        {"h-4": ("a->b", "b->a")},
        {"c->b": "MirrorMaker 2 runs it: ..."},
        {},
    )
    assert list(module.lines(asked)) == [
        "h-1 (f)",
        "  a->b: runs with its new settings",
        "    f:5: topics = x (y before): taken over",
        "    f:6: tasks.max = 2 (1 before): NEEDS A RESTART [TW-RELOAD-02]",
        "  b->a: unchanged",
        "  all of the file",
        "    f:7: twinlog.metrics.listeners = http://:1 (not written before): NEEDS A RESTART [TW-RELOAD-02]",
        "    f:8: errors.retry.timeout = 1 (not written before): has no effect here",
        "  and 2 more keys in the log of the process",
        "h-2 (g): its file is as before",
        "TW-RELOAD-01: h-3 (g): its file is wrong, and its flows are as before",
        "  g:5: topics: wrong; write right",
        "TW-RELOAD-08: h-4 runs or waits for a->b, b->a and was silent: its version lacks the reload, it",
        "  lacks the right to read or write mm2-twinlog-reload.internal, or it hangs; on its host: kill -HUP PID",
        "TW-LEADER-01: c->b: MirrorMaker 2 runs it: ...",
    ]


def test_what_would_be_taken_over_is_told_so() -> None:
    asked = ReloadAnswers((report(keys=(TOPICS,), flows={"a->b": "runs with its new settings"}, only_looked=True),))
    assert list(module.lines(asked))[-1] == "    f:5: topics = x (y before): would be taken over"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (ReloadAnswers((report(),)), 0),
        (ReloadAnswers((report(keys=(TOPICS,)),)), 0),
        (ReloadAnswers((report(keys=(TOPICS, TASKS)),)), 1),
        (ReloadAnswers((report(problems=("wrong",)), report(keys=(TASKS,)))), 2),
        (ReloadAnswers((report(),), {"h-2": ("a->b",)}), 3),
        (ReloadAnswers((report(),), troubles={"b": "away"}), 3),
        (ReloadAnswers(troubles={"b": "away"}), 3),
        (ReloadAnswers(), 1),
        (ReloadAnswers(others={"a->b": "MirrorMaker 2 runs it"}), 1),
    ],
)
def test_the_code_is_that_of_what_an_operator_has_to_look_at(asked: ReloadAnswers, code: int) -> None:
    assert module.exit_code(asked) == code


class Asker:
    """Asks nobody."""

    asked: tuple[Any, ...] = ()

    def __init__(self, flows: Any, by: str, *, only_look: bool, timeout_s: float) -> None:
        Asker.asked = ([flow.name for flow in flows], by, only_look, timeout_s)

    def waits(self) -> list[str]:
        return []

    def request_reload(self) -> ReloadAnswers:
        return ReloadAnswers((report(keys=(TOPICS,), flows={"a->b": "runs with its new settings"}),))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(reloads, "ReloadAsker", Asker)
    monkeypatch.setattr(module, "who", lambda: "anna on ops-1")
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    Asker.asked = ()
    return path


def test_the_flows_of_the_file_are_asked_for(file: Path) -> None:
    done = CliRunner().invoke(app, ["reload", str(file), "--dry-run", "--timeout", "7", "-o", "json"])
    assert done.exit_code == 0
    assert Asker.asked == (["a->b", "b->a"], "anna on ops-1", True, 7.0)
    (found,) = json.loads(done.stdout)["processes"]
    assert (found["process"], found["flows"]) == ("h-1", {"a->b": "runs with its new settings"})


def test_a_key_that_needs_a_restart_has_an_id_in_the_data(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = ReloadAnswers((report(keys=(TOPICS, TASKS)),))
    monkeypatch.setattr(Asker, "request_reload", lambda _: changed)
    done = CliRunner().invoke(app, ["reload", str(file), "-o", "json"])
    assert (done.exit_code, json.loads(done.stdout)["ids"]) == (1, ["TW-RELOAD-02"])


def test_a_file_that_is_wrong_reaches_nobody(file: Path) -> None:
    file.write_text(f"{FILE}a->b.topics = (x\n")
    done = CliRunner().invoke(app, ["reload", str(file)])
    assert (done.exit_code, Asker.asked) == (2, ())
    assert f"{file}:5: error: a->b.topics: an unclosed parenthesis, at character 1 of '(x'" in done.output


@pytest.mark.parametrize(
    "text", ["apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\n", kafkas_files.STANDALONE]
)
def test_only_files_of_mirror_maker_are_read_again(file: Path, text: str) -> None:
    file.write_text(text)
    done = CliRunner().invoke(app, ["reload", str(file)])
    assert (done.exit_code, Asker.asked) == (2, ())
    assert "is another kind than MirrorMaker 2's properties" in " ".join(done.output.split())


def test_who_asks_is_named_even_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 1000")

    assert " on " in module.who()
    monkeypatch.setattr(module.getpass, "getuser", nobody)
    assert module.who().startswith("an unnamed user on ")
