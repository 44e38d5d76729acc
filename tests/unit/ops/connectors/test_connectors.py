"""`twinlog connectors` beside a worker that answers what a test has written down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.cli.scripted_worker import Reply, ScriptedWorker, error, scripted_worker
from twinlog.cli.main import app
from twinlog.ops.connectors import commands as states_module

NAME = "a->b /1"
PATH = "/connectors/a-%3Eb%20%2F1"
MIRROR = "org.apache.kafka.connect.mirror.Mirror"
VALIDATE = f"PUT /connector-plugins/{MIRROR}SourceConnector/config/validate"
GOOD = {"configs": [{"definition": None, "value": {"name": "topics", "errors": []}}]}
LOGIN = ("TWINLOG_CONNECT_USER", "TWINLOG_CONNECT_PASSWORD")


@pytest.fixture
def worker() -> Iterator[ScriptedWorker]:
    with scripted_worker() as one:
        yield one


@pytest.fixture(autouse=True)
def nobody_is_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the one who runs the tests has set does not count."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (*LOGIN, "NETRC", "TWINLOG_CONNECT_URL"):
        monkeypatch.delenv(name, raising=False)


def run(worker: ScriptedWorker, *words: str, **more: Any) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a command."""
    done = CliRunner().invoke(app, ["connectors", *words, "--url", worker.url], **more)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def state(name: str, connector: str, *tasks: str, trace: str | None = None) -> dict[str, Any]:
    def part(one: str) -> dict[str, Any]:
        return {"state": one, "worker_id": "w:1", **({"trace": trace} if one == "FAILED" and trace else {})}

    numbered = [{"id": number, **part(one)} for number, one in enumerate(tasks)]
    return {"name": name, "connector": part(connector), "tasks": numbered, "type": "source"}


def test_a_list_names_those_without_a_status_too(worker: ScriptedWorker) -> None:
    infos = {name: {"info": {"config": {"connector.class": f"{MIRROR}SourceConnector"}}} for name in (NAME, "new")}
    worker.on("GET /connectors?expand=info", infos)
    worker.on("GET /connectors?expand=status", {NAME: {"status": state(NAME, "RUNNING", "RUNNING", "FAILED")}})
    code, out, _ = run(worker, "list")
    assert code == 0
    assert out.splitlines() == [
        "NAME     CLASS                  STATE            TASKS                WORKER",
        "a->b /1  MirrorSourceConnector  RUNNING          1 FAILED, 1 RUNNING  w:1",
        "new      MirrorSourceConnector  (no status yet)  none                 -",
    ]
    code, out, _ = run(worker, "list", "-o", "json")
    assert json.loads(out)[0] == {
        "name": NAME,
        "class": f"{MIRROR}SourceConnector",
        "state": "RUNNING",
        "worker_id": "w:1",
        "tasks": ["RUNNING", "FAILED"],
    }


def test_the_status_of_a_failed_task_says_why_and_ends_with_1(worker: ScriptedWorker) -> None:
    trace = "ConnectException: broken\x1b[2J\n\tat a.B(B.java:1)\nCaused by: A\n\tat b\nCaused by: no right\n\tat c\n"
    worker.on(f"GET {PATH}/status", state(NAME, "RUNNING", "RUNNING", "FAILED", trace=trace))
    code, out, _ = run(worker, "status", NAME)
    assert code == 1
    assert out.splitlines() == [
        "NAME     TASK  STATE    WORKER",
        "a->b /1  -     RUNNING  w:1",
        "a->b /1  0     RUNNING  w:1",
        "a->b /1  1     FAILED   w:1",
        "a->b /1, task 1: ConnectException: broken[2J",
        "  Caused by: no right",
    ]
    assert "\tat a.B(B.java:1)" in run(worker, "status", NAME, "--trace")[1]
    code, out, _ = run(worker, "status", NAME, "-o", "json")
    assert (code, json.loads(out)[0]["tasks"][1]["trace"]) == (1, trace)


def test_the_status_of_an_unknown_connector(worker: ScriptedWorker) -> None:
    worker.on("GET /connectors/x/status", error(404, "No status found for connector x"))
    worker.on("GET /connectors/x", error(404, "Connector x not found"))
    assert run(worker, "status", "x") == (1, "", "twinlog: TW-REST-08: Connector x not found\n")


def test_waiting_ends_when_everything_runs(worker: ScriptedWorker) -> None:
    worker.on("GET /connectors/c", {"name": "c"})
    none, starts = error(404, "No status found"), state("c", "RUNNING", "UNASSIGNED")
    worker.on("GET /connectors/c/status", none, starts, state("c", "RUNNING", "RUNNING"))
    code, out, err = run(worker, "status", "c", "--wait")
    assert (code, out.count("RUNNING")) == (0, 2)
    assert err.splitlines() == ["waiting: the status of c is still missing", "waiting: c is UNASSIGNED"]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (state("c", "RUNNING", "FAILED", "UNASSIGNED", trace="no right"), "c, task 0: no right"),
        (state("c", "PAUSED", "PAUSED"), "not running: c; `twinlog connectors resume` starts them"),
    ],
)
def test_waiting_ends_when_something_will_not_run(
    worker: ScriptedWorker, monkeypatch: pytest.MonkeyPatch, found: Any, words: str
) -> None:
    monkeypatch.setattr(states_module, "STAYS_S", 0.0)
    worker.on("GET /connectors/c/status", found)
    code, out, err = run(worker, "status", "c", "--wait")
    assert code == 1
    assert words in out + err


def test_what_was_just_resumed_is_still_shown_as_paused(worker: ScriptedWorker) -> None:
    paused = state("c", "PAUSED", "PAUSED")
    worker.on("GET /connectors/c/status", paused, state("c", "RUNNING"), state("c", "RUNNING", "RUNNING"))
    code, _, err = run(worker, "status", "c", "--wait")
    assert (code, err.splitlines()) == (0, ["waiting: c is PAUSED", "waiting: the tasks of c are still missing"])


def test_waiting_ends_in_time(worker: ScriptedWorker) -> None:
    worker.on("GET /connectors/c/status", state("c", "UNASSIGNED"))
    code, _, err = run(worker, "status", "c", "--wait", "--timeout", "0")
    assert (code, err) == (1, "twinlog: TW-USE-06: after 0 s c is UNASSIGNED\n")


@pytest.mark.parametrize(("verb", "text"), [("pause", "PAUSED"), ("resume", "RUNNING"), ("stop", "STOPPED")])
def test_states_of_several(worker: ScriptedWorker, verb: str, text: str) -> None:
    worker.on(f"PUT {PATH}/{verb}", Reply(202))
    worker.on(f"PUT /connectors/x/{verb}", error(404, "Unknown connector x"))
    code, out, err = run(worker, verb, "x", NAME)
    assert (code, out, err) == (1, f"{NAME}: will be {text}\n", "twinlog: TW-REST-08: x: Unknown connector x\n")


def test_a_restart_says_what_restarts(worker: ScriptedWorker) -> None:
    both = f"POST {PATH}/restart?includeTasks=true&onlyFailed=true"
    worker.on(f"POST {PATH}/restart?includeTasks=false&onlyFailed=false", Reply(204))
    worker.on(both, Reply(202, state(NAME, "RUNNING", "RUNNING", "RESTARTING")), state(NAME, "RUNNING", "RUNNING"))
    worker.on(f"POST {PATH}/tasks/3/restart", Reply(204))
    assert run(worker, "restart", NAME)[:2] == (0, f"{NAME}: the connector restarts\n")
    assert run(worker, "restart", NAME, "--tasks", "--failed-only")[:2] == (0, f"{NAME}: task 1 restarts\n")
    assert run(worker, "restart", NAME, "--tasks", "--failed-only")[:2] == (0, f"{NAME}: nothing to restart\n")
    assert run(worker, "restart", NAME, "--task", "3")[:2] == (0, f"{NAME}: task 3 restarts\n")
    assert run(worker, "restart", NAME, "--task", "3", "--tasks")[0] == 2


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("pause", NAME), [f"{NAME}: would be PAUSED, and is RUNNING"]),
        (("resume", NAME), [f"{NAME}: would be RUNNING, and is RUNNING"]),
        (("stop", NAME), [f"{NAME}: would be STOPPED, and is RUNNING"]),
        (("restart", NAME), [f"{NAME}: the connector would restart"]),
        (("restart", NAME, "--tasks"), [f"{NAME}: the connector, task 0, task 1 would restart"]),
        (("restart", NAME, "--tasks", "--failed-only"), [f"{NAME}: task 1 would restart"]),
        (("restart", NAME, "--failed-only"), [f"{NAME}: nothing to restart"]),
        (("restart", NAME, "--task", "1"), [f"{NAME}: task 1 would restart"]),
        (("delete", NAME, NAME), [f"{NAME}: would be deleted"]),
        (
            ("offsets", "alter", NAME, "t:0=7", "t:1=none", "u:0=1"),
            [
                f"{NAME}: cluster=a topic=t partition=0: offset 5 would be 7",
                f"{NAME}: cluster=a topic=t partition=1: offset 6 would be none",
                f"{NAME}: cluster=a topic=u partition=0: offset none would be 1",
            ],
        ),
        (("offsets", "reset", NAME), [f"{NAME}: all stored offsets would be deleted: 2"]),
    ],
)
def test_a_dry_run_prints_the_change_and_only_reads(
    worker: ScriptedWorker, words: tuple[str, ...], lines: list[str]
) -> None:
    stored = [
        {"partition": {"cluster": "a", "topic": "t", "partition": number}, "offset": {"offset": 5 + number}}
        for number in range(2)
    ]
    worker.on(f"GET {PATH}", {"name": NAME}).on(f"GET {PATH}/status", state(NAME, "RUNNING", "RUNNING", "FAILED"))
    worker.on(f"GET {PATH}/config", source()).on(f"GET {PATH}/offsets", {"offsets": stored})
    code, out, err = run(worker, *words, "--dry-run")
    assert (code, out.splitlines()) == (0, lines), err
    assert {request.split()[0] for request in worker.requests} == {"GET"}


def test_a_dry_run_finds_what_the_worker_lacks(worker: ScriptedWorker, tmp_path: Path) -> None:
    worker.on("GET /connectors/x/status", error(404, "No status found for connector x"))
    worker.on("GET /connectors/x", error(404, "Connector x not found"))
    worker.on(f"GET {PATH}/status", state(NAME, "RUNNING", "RUNNING"))
    worker.on(f"GET {PATH}/offsets", {"offsets": []})
    assert run(worker, "pause", "x", "--dry-run")[0] == 1
    code, _, err = run(worker, "restart", NAME, "--task", "1", "--dry-run")
    assert (code, "task 1 is unknown; known tasks: 0" in err) == (1, True)
    file = tmp_path / "offsets.json"
    file.write_text('{"offsets": [7]}')
    code, _, err = run(worker, "offsets", "alter", NAME, "--file", str(file), "--dry-run")
    assert (code, "offsets: 7; write" in err) == (2, True), err


def test_nothing_is_deleted_unasked(worker: ScriptedWorker) -> None:
    worker.on(f"GET {PATH}", {"name": NAME}).on(f"DELETE {PATH}", Reply(204))
    assert run(worker, "delete", NAME)[0] == 2
    assert run(worker, "delete", NAME, input="n\n")[0] == 1
    assert f"DELETE {PATH}" not in worker.requests
    assert run(worker, "delete", NAME, input="y\n")[0] == 0
    assert run(worker, "delete", NAME, "--yes")[:2] == (0, f"{NAME}: deleted\n")
    assert worker.requests.count(f"DELETE {PATH}") == 2
    assert run(worker, "delete", NAME, "x", "--yes")[0] == 1
    assert worker.requests.count(f"DELETE {PATH}") == 2, "one is unknown, so none is deleted"


def source(**more: str) -> dict[str, str]:
    return {"connector.class": f"{MIRROR}SourceConnector", "source.cluster.alias": "a", "name": NAME, **more}


@pytest.mark.parametrize("form", ["flat", "wrapped", "properties", "named"])
def test_a_connector_is_created_from_each_form(worker: ScriptedWorker, tmp_path: Path, form: str) -> None:
    config = source(**{"tasks.max": "2"})
    without = {key: value for key, value in config.items() if key != "name"}
    texts = {
        "flat": json.dumps(config),
        "wrapped": json.dumps({"name": NAME, "config": without, "initial_state": "STOPPED"}),
        "properties": "".join(f"{key} = {value}\n" for key, value in config.items()),
        "named": json.dumps(without),
    }
    file = tmp_path / "connector"
    file.write_text(texts[form])
    worker.on(VALIDATE, GOOD).on("POST /connectors", Reply(201, {"name": NAME}))
    code, out, _ = run(worker, "create", str(file), *(["--name", NAME] if form == "named" else []))
    assert (code, out) == (0, f"{NAME}: created\n")
    body = {"name": NAME, "config": config} | ({"initial_state": "STOPPED"} if form == "wrapped" else {})
    assert worker.asked[-1].body == body


def test_a_replaced_configuration_shows_what_changes_and_no_secret(worker: ScriptedWorker, tmp_path: Path) -> None:
    old = {
        "tasks.max": "1",
        "topics": "t",
        "source.cluster.sasl.jaas.config": "old secret",
        "producer.override.ssl.key.password": "${file:/s:p}",
        "jdbc.password": "kept",
        "url": "mysql://me:old-secret@host",
    }
    new = old | {
        "tasks.max": "2",
        "source.cluster.sasl.jaas.config": "new secret",
        "producer.override.ssl.key.password": "${file:/s:q}",
        "url": "mysql://host",
        "groups": "g",
    }
    del new["topics"]
    file = tmp_path / "c.json"
    file.write_text(json.dumps(source(**new)))
    worker.on(VALIDATE, GOOD).on(f"GET {PATH}/config", source(**old)).on(f"PUT {PATH}/config", {"name": NAME})
    code, out, _ = run(worker, "create", str(file), "--dry-run")
    assert (code, out.splitlines()[0]) == (0, f"{NAME}: would be replaced")
    assert f"PUT {PATH}/config" not in worker.requests
    code, out, err = run(worker, "create", str(file))
    assert code == 0
    assert out.splitlines() == [
        f"{NAME}: replaced",
        "  + groups = g",
        "  ~ producer.override.ssl.key.password = ${file:/s:p} -> ${file:/s:q}",
        "  ~ source.cluster.sasl.jaas.config = (hidden) -> (hidden)",
        "  ~ tasks.max = 1 -> 2",
        "  - topics = t",
        "  ~ url = (hidden) -> mysql://host",
    ]
    assert worker.asked[-1].body == source(**new)
    code, out, _ = run(worker, "create", str(file), "-o", "json")
    assert json.loads(out)[0]["changes"][0] == {"key": "groups", "before": None, "after": "g"}
    assert "secret" not in out + err


def test_the_same_configuration_is_left_alone(worker: ScriptedWorker, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(json.dumps(source()))
    worker.on(VALIDATE, GOOD).on(f"GET {PATH}/config", source())
    code, out, _ = run(worker, "create", str(file))
    assert (code, out) == (0, f"{NAME}: unchanged, it has this configuration already\n")
    assert worker.requests[-1] == f"GET {PATH}/config"


def test_every_error_of_every_file_is_a_line_and_nothing_changes(worker: ScriptedWorker, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("good", "bad", "other", "none")]
    files[0].write_text(json.dumps(source()))
    files[1].write_text(json.dumps(source(name="c")))
    files[2].write_text(json.dumps({"name": "d", "connector.class": "Jdbc"}))
    files[3].write_text(json.dumps({"name": "e"}))
    wrong = {"name": "topics", "errors": ["not a pattern [TW-FILE-04]", "too long"]}
    worker.on(VALIDATE, GOOD, {"configs": [{"value": wrong}, {"value": None}]})
    worker.on("PUT /connector-plugins/Jdbc/config/validate", error(400, "no such class"))
    code, out, err = run(worker, "create", *map(str, files))
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        f"{files[1]}: error: topics: not a pattern [TW-FILE-04]",
        f"{files[1]}: error: topics: too long [TW-FILE-22]",
        f"{files[2]}: error: no such class [TW-FILE-22]",
        f"{files[3]}: error: connector.class: missing; write the class of the connector [TW-FILE-26]",
        "4 errors, 0 warnings",
        "nothing was changed",
    ]
    assert {request.split()[0] + request[-8:] for request in worker.requests} == {"PUTvalidate"}


def test_files_that_are_no_good_are_never_sent(worker: ScriptedWorker, tmp_path: Path) -> None:
    broken, twice = tmp_path / "broken", tmp_path / "twice"
    broken.write_text("{")
    twice.write_text(json.dumps(source()))
    code, _, err = run(worker, "create", str(broken), str(twice), str(twice), str(tmp_path / "none"))
    assert code == 2
    assert err.count(": error: ") == 3
    assert worker.asked == []


SOURCE_PLACE = {"cluster": "a", "topic": "t", "partition": 10}
OFFSETS = [
    {"partition": SOURCE_PLACE, "offset": {"offset": 7}},
    {"partition": {**SOURCE_PLACE, "partition": 9}, "offset": None},
]


@pytest.mark.parametrize(
    ("found", "table"),
    [
        (
            OFFSETS,
            ["CLUSTER  TOPIC  PARTITION  OFFSET", "a        t              9  none", "a        t             10  7"],
        ),
        (
            [{"partition": {"group": "g", "topic": "t", "partition": 0}, "offset": {"offset": 0}}],
            ["GROUP  TOPIC  PARTITION  OFFSET", "g      t              0       0"],
        ),
        (
            [{"partition": {"sourceClusterAlias": "a", "targetClusterAlias": "b"}, "offset": {"offset": 0}}],
            ["SOURCE  TARGET  OFFSET", "a       b            0"],
        ),
        (
            [{"partition": {"filename": "f"}, "offset": {"position": 3}}],
            ["PARTITION          OFFSET", "{'filename': 'f'}  {'position': 3}"],
        ),
        ([], [f"{NAME} lacks stored offsets"]),
    ],
)
def test_offsets_of_each_kind(worker: ScriptedWorker, found: Any, table: list[str]) -> None:
    worker.on(f"GET {PATH}/offsets", {"offsets": found})
    code, out, _ = run(worker, "offsets", "list", NAME)
    assert (code, out.splitlines()) == (0, table)
    assert json.loads(run(worker, "offsets", "list", NAME, "-o", "json")[1]) == {"offsets": found}


@pytest.mark.parametrize(
    ("kind", "words", "sent"),
    [
        ("Source", ("t:10=7", "t:9=none"), OFFSETS),
        (
            "Checkpoint",
            ("t:0=0", "--group", "g"),
            [{"partition": {"group": "g", "topic": "t", "partition": 0}, "offset": {"offset": 0}}],
        ),
        (
            "Heartbeat",
            ("none",),
            [{"partition": {"sourceClusterAlias": "a", "targetClusterAlias": "target"}, "offset": None}],
        ),
    ],
)
def test_altered_offsets_of_each_kind(worker: ScriptedWorker, kind: str, words: tuple[str, ...], sent: Any) -> None:
    worker.on(f"GET {PATH}/config", source(**{"connector.class": f"{MIRROR}{kind}Connector"}))
    worker.on(f"PATCH {PATH}/offsets", {"message": "altered"})
    code, out, _ = run(worker, "offsets", "alter", NAME, *words)
    assert (code, out) == (0, "altered\n`twinlog connectors resume 'a->b /1'` starts it\n")
    assert worker.asked[-1].body == {"offsets": sent}


def test_offsets_from_a_file(worker: ScriptedWorker, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    worker.on(f"PATCH {PATH}/offsets", {"message": "altered"})
    file.write_text(json.dumps({"offsets": OFFSETS}))
    assert run(worker, "offsets", "alter", NAME, "--file", str(file))[0] == 0
    assert worker.asked[-1].body == {"offsets": OFFSETS}
    for text in (json.dumps(OFFSETS), "[" * 100_000):
        file.write_text(text)
        assert run(worker, "offsets", "alter", NAME, "--file", str(file))[0] == 2


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("Source", ()),
        ("Source", ("t=7",)),
        ("Source", ("t:1=x",)),
        ("Source", ("t:1",)),
        ("Source", ("t:1=1", "--group", "g")),
        ("Checkpoint", ("t:1=0",)),
        ("Heartbeat", ("t:1=0",)),
        ("Jdbc", ("t:1=0",)),
    ],
)
def test_offsets_that_cannot_be_meant(worker: ScriptedWorker, kind: str, words: tuple[str, ...]) -> None:
    worker.on(f"GET {PATH}/config", source(**{"connector.class": f"{MIRROR}{kind}Connector"}))
    code, out, err = run(worker, "offsets", "alter", NAME, *words)
    assert (code, out) == (2, "")
    assert err
    assert f"PATCH {PATH}/offsets" not in worker.requests


def test_offsets_of_a_running_connector(worker: ScriptedWorker) -> None:
    refusal = error(400, "Connectors must be in the STOPPED state before their offsets can be reset. ...")
    worker.on(f"GET {PATH}", {"name": NAME}).on(f"DELETE {PATH}/offsets", refusal, {"message": "reset"})
    code, _, err = run(worker, "offsets", "reset", NAME, "--yes")
    assert (code, err) == (
        1,
        f"twinlog: TW-REST-08: {NAME} is still running: `twinlog connectors stop 'a->b /1'` ends its tasks\n",
    )
    assert run(worker, "offsets", "reset", NAME)[0] == 2, "nobody answers whether it is meant"
    assert run(worker, "offsets", "reset", NAME, "-y")[:2] == (
        0,
        "reset\n`twinlog connectors resume 'a->b /1'` starts it\n",
    )


def test_every_command_has_an_example_and_says_how_to_log_in() -> None:
    """In its help."""
    runner = CliRunner(env={"COLUMNS": "200"})
    for words in (
        *([one] for one in ("list", "status", "create", "pause", "resume", "stop", "restart", "delete")),
        *(["offsets", one] for one in ("list", "alter", "reset")),
    ):
        text = runner.invoke(app, ["connectors", *words, "--help"]).output
        assert f"  twinlog connectors {' '.join(words)} " in text
        assert "TWINLOG_CONNECT_PASSWORD" in text
        assert "TWINLOG_CONNECT_URL" in text
