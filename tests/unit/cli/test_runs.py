"""Commands as a shell runs them: exit codes, a flow's forms, the result and the log as data, completion."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from ruamel.yaml import YAML
from typer.testing import CliRunner

from harness.wait import wait_for
from twinlog.cli.main import app

SILENT = "127.0.0.1:1"
FILE = f"clusters = east, west\neast.bootstrap.servers = {SILENT}\nwest.bootstrap.servers = {SILENT}\n"
TWINLOG = [sys.executable, "-m", "twinlog"]
DEADLINE_S = 120.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A flow between clusters where nothing listens."""
    file = tmp_path / "mm2.properties"
    file.write_text(f"{FILE}east->west.enabled = true\n")
    return file


def twinlog(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TWINLOG, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
        env={**os.environ, "COLUMNS": "80", **environment},
    )


SILENT_CLUSTER = [
    ("plan", "FILE", "--timeout", "0.3"),
    ("diff", "FILE", "--from", "east", "--to", "west", "--timeout", "0.3"),
    ("status", "FILE", "--timeout", "0.3"),
    ("topics", "FILE", "--timeout", "0.3"),
    ("verify", "FILE", "--timeout", "0.3"),
    ("groups", "FILE", "--timeout", "0.3"),
    ("log-level", "FILE", "debug", "--timeout", "0.3"),
    ("translate", "FILE", "--group", "g", "--timeout", "0.3"),
    ("replay", "FILE", "--topic", "orders", "--timeout", "0.3"),
    ("connectors", "list", "--url", f"http://{SILENT}", "--timeout", "1"),
]


def called(file: Path, *words: str) -> Result:
    """The command as a call in this process; FILE is the name of the file."""
    return CliRunner().invoke(app, [str(file) if word == "FILE" else word for word in words], env={"COLUMNS": "80"})


@pytest.mark.parametrize("words", SILENT_CLUSTER, ids=lambda words: words[0])
def test_a_silent_cluster_is_code_3(file: Path, words: tuple[str, ...]) -> None:
    done = called(file, *words)
    assert done.exit_code == 3, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert SILENT in done.stdout + done.stderr


@pytest.mark.parametrize(
    "words", [*SILENT_CLUSTER[:-1], ("run", "FILE"), ("reload", "FILE"), ("acls", "FILE")], ids=lambda words: words[0]
)
def test_a_wrong_file_is_code_2(file: Path, words: tuple[str, ...]) -> None:
    file.write_text(f"{FILE}east->west.enabled = maybe\n")
    done = called(file, *words)
    assert done.exit_code == 2, done.stdout + done.stderr
    assert "'maybe'" in done.stderr
    assert f"{file}:4" in done.stderr


@pytest.mark.parametrize("words", [*SILENT_CLUSTER, ("run", "FILE"), ("check", "FILE")], ids=lambda words: words[0])
def test_a_wrong_option_is_code_2_in_plain_text(file: Path, words: tuple[str, ...]) -> None:
    done = called(file, *words, "--no-such-option")
    assert done.exit_code == 2
    usage, hint, *_, error = done.stderr.splitlines()
    assert usage.startswith(f"Usage: twinlog {words[0]} ")
    assert hint.startswith(f"Try 'twinlog {words[0]}")
    assert error.startswith("Error: TW-USE-01: No such option: --no-such-option")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupted_command_is_code_4(file: Path, number: signal.Signals) -> None:
    command = [*TWINLOG, "groups", str(file), "--wait", "--timeout", "300"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        errors = process.stderr
        assert errors is not None
        wait_for(lambda: "of 300 s" in errors.readline(), DEADLINE_S, "it waits", every_s=0.05)
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == 4
        assert errors.read().splitlines()[-1] == f"twinlog: TW-USE-03: ended by {number.name}"


def test_a_flow_has_a_form_that_needs_no_quotes(file: Path) -> None:
    for form in ("east:west", "east->west"):
        done = called(file, "status", "FILE", "--flow", form, "--timeout", "0.3", "-o", "json")
        assert [one["flow"] for one in json.loads(done.stdout)["flows"]] == ["east->west"]
    done = called(file, "status", "FILE", "--flow", "east:south")
    assert (done.exit_code, "no flow east:south; the file has east:west" in done.stderr) == (2, True)


def test_an_arrow_without_quotes_is_named_with_the_file_that_the_shell_has_emptied(file: Path) -> None:
    (file.parent / "west").write_text("precious")
    line = f"{sys.executable} -m twinlog status mm2.properties --flow east->west"
    done = subprocess.run(["sh", "-c", line], cwd=file.parent, capture_output=True, text=True, check=False)
    assert (file.parent / "west").read_text() == ""
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "Error: TW-USE-01: Invalid value for --flow: twinlog got 'east-': the shell takes > for a redirection, and has "
        "just emptied the file west. Write --flow east:west, or quote it: --flow 'east->west'"
    )


@pytest.mark.scenario
def test_words_of_before_that_are_options_of_their_own_still_work(file: Path) -> None:
    replayed = twinlog("replay", file, "--topics", "orders, pay.*", "--from", "latest", "--to", "earliest")
    assert replayed.returncode == 2
    assert "the range from latest to earliest is empty" in replayed.stderr
    replayed = twinlog("replay", file, "--topic", "orders", "--from", "5", "--since", "2026-11-20T08:00:00Z")
    assert (replayed.returncode, "give either --since or --from-offset" in replayed.stderr) == (2, True)
    listed = twinlog("connectors", "list", "--url", f"http://{SILENT}", "--listens-later", "--retry", "0", "--json")
    assert (listed.returncode, listed.stdout) == (3, "")
    assert "the port is closed" in listed.stderr


def test_results_are_json_and_yaml(file: Path) -> None:
    as_json = json.loads(twinlog("explain", "TW-GAP-01", "-o", "json").stdout)
    as_yaml = YAML(typ="safe").load(called(file, "explain", "TW-GAP-01", "-o", "yaml").stdout)
    assert as_json == as_yaml
    assert as_json[0]["id"] == "TW-GAP-01"
    done = called(file, "status", "FILE", "--timeout", "0.3", "-o", "yaml")
    (flow,) = YAML(typ="safe").load(done.stdout)["flows"]
    assert (flow["flow"], next(iter(flow))) == ("east->west", "flow")


def test_lines_of_a_command_are_json_objects(file: Path) -> None:
    file.write_text(f"{FILE}east->west.enabled = maybe\ntasks.max = 1\ntasks.max = 2\n")
    for words, environment in ((("--log-format", "json"), {}), ((), {"TWINLOG_LOG_FORMAT": "json"})):
        done = twinlog("run", file, *words, **environment)
        lines = [json.loads(line) for line in done.stderr.splitlines()]
        assert {"time", "level", "text"} <= set.intersection(*(set(line) for line in lines))
        assert {line["level"] for line in lines} >= {"error", "warning"}
        assert any("'maybe'" in line["text"] for line in lines)


def test_a_wrong_option_is_a_json_object_where_lines_are(file: Path) -> None:
    done = twinlog("status", file, "--flow", "east:south", "--log-format", "json")
    (line,) = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, line["level"], line["id"]) == (2, "error", "TW-USE-01")
    assert line["text"].startswith("Invalid value for --flow: there is no flow east:south")


def test_the_log_of_a_run_is_json_objects(file: Path) -> None:
    with subprocess.Popen([*TWINLOG, "run", str(file), "--log-format", "json"], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        lines: list[dict[str, Any]] = []
        until = time.monotonic() + DEADLINE_S
        while not any("connect" in line["text"] for line in lines) and time.monotonic() < until:
            lines.append(json.loads(process.stderr.readline()))
        process.send_signal(signal.SIGTERM)
        lines += [json.loads(line) for line in process.stderr.read().splitlines()]
        assert process.wait(DEADLINE_S) == 0
    warned = next(line for line in lines if line["level"] == "warning" and "flow" in line)
    assert warned["flow"] in {"east->west", "west->east"}
    assert "->" not in warned["text"]
    assert lines[-1]["text"] == "stopping (SIGTERM)" or "stopped" in lines[-1]["text"]


def test_quiet_leaves_out_notes_and_verbose_adds_lines(file: Path) -> None:
    usual = twinlog("groups", file, "--wait", "--timeout", "1")
    assert "of 1 s: " in usual.stderr
    quiet = twinlog("groups", file, "--wait", "--timeout", "1", "-q")
    assert "of 1 s: " not in quiet.stderr
    assert (usual.returncode, quiet.returncode) == (3, 3)
    assert quiet.stderr.startswith("twinlog: TW-NET-01: cluster ")
    done = called(file, "status", "FILE", "-v", "-q")
    assert (done.exit_code, "give either -v or -q" in done.stderr) == (2, True)


def test_a_shell_completes_commands_options_and_values(tmp_path: Path) -> None:
    script = twinlog("completion", "bash")
    assert script.returncode == 0
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "twinlog"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m twinlog "$@"\n')
    program.chmod(0o755)
    (tmp_path / "script").write_text(script.stdout)

    def completed(*words: str) -> set[str]:
        line = " ".join(words)
        asked = (
            f"source {tmp_path}/script; COMP_WORDS=({line}); [ -n \"{words[-1]}\" ] || COMP_WORDS+=('')\n"
            f'COMP_CWORD={len(words) - 1}; _twinlog_completion twinlog; printf "%s\\n" "${{COMPREPLY[@]}}"'
        )
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", asked], env=environment, capture_output=True, text=True, check=True)
        return set(done.stdout.split())

    assert completed("twinlog", "stat") == {"status"}
    assert {"switchover", "switchback"} == completed("twinlog", "switch")
    assert completed("twinlog", "verify", "f", "--to") == {"--topic"}
    assert completed("twinlog", "status", "f", "-o", "y") == {"yaml"}
    assert completed("twinlog", "topics", "res") == {"restart-from", "resume"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    done = twinlog("completion", shell)
    assert done.returncode == 0
    assert f"_TWINLOG_COMPLETE=complete_{shell}" in done.stdout
