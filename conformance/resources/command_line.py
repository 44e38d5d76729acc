"""`twinlog connectors` as an operator types it: it steers any worker, whoever's it is."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from typer.testing import CliRunner

from conformance.mirrors import heartbeat
from conformance.resources.arrangements import PLAIN
from conformance.stage import Act, Resource, Stage
from harness.wait import wait_for
from twinlog.cli.main import app

GONE_S = 60.0
NAME = "a heart beats->here"
"""Kafka 4.3's own takes no path with a slash in a name, however it is written."""


def twinlog_connectors(url: str, *words: str) -> str:
    """What a command prints; it must succeed."""
    code, out, err = ask_connectors(url, *words)
    assert code == 0, (words, out, err)
    return out


def ask_connectors(url: str, *words: str) -> tuple[int, str, str]:
    """The exit code of a command, its stdout and its stderr."""
    done = CliRunner(env={"NETRC": "/dev/null"}).invoke(app, ["connectors", *words, "--url", url])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def steer_a_heartbeat(url: str, file: Path, name: str, alias: str) -> None:
    """Every command on the heartbeat connector `name`, that `file` describes and that does not exist yet; afterwards
    it does not exist again. `alias` is that of its source."""
    assert twinlog_connectors(url, "create", str(file)) == f"{name}: created\n"
    assert f"{name}  -     RUNNING" in twinlog_connectors(url, "status", name, "--wait")
    assert twinlog_connectors(url, "create", str(file)) == f"{name}: unchanged, it has this configuration already\n"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('"tasks.max": "1"', '"tasks.max": "2"'), encoding="utf-8")
    replaced = twinlog_connectors(url, "create", str(file))
    assert replaced == f"{name}: replaced\n  ~ tasks.max = 1 -> 2\n"
    file.write_text(text.replace('"tasks.max": "1"', '"tasks.max": "many"'), encoding="utf-8")
    code, _, err = ask_connectors(url, "create", str(file))
    assert code == 2
    assert f"{file}:1: error: tasks.max: " in err
    assert err.endswith("\nnothing was changed\n")
    assert f"{name}  MirrorHeartbeatConnector" in twinlog_connectors(url, "list")
    assert twinlog_connectors(url, "restart", name) == f"{name}: the connector restarts\n"
    assert f"{name}: " in twinlog_connectors(url, "restart", name, "--tasks")
    twinlog_connectors(url, "pause", name)
    twinlog_connectors(url, "resume", name)
    twinlog_connectors(url, "status", name, "--wait")
    code, _, err = ask_connectors(url, "offsets", "reset", name, "--yes")
    assert code == 1
    assert "is still running: `twinlog connectors stop " in err
    twinlog_connectors(url, "stop", name)
    twinlog_connectors(url, "offsets", "alter", name, "0")
    assert f"{alias}  " in twinlog_connectors(url, "offsets", "list", name)
    twinlog_connectors(url, "offsets", "reset", name, "--yes")
    assert twinlog_connectors(url, "offsets", "list", name) == f"{name} lacks stored offsets\n"
    assert twinlog_connectors(url, "delete", name, "--yes") == f"{name}: deleted\n"

    def gone() -> bool:
        code, _, err = ask_connectors(url, "status", name)
        # Before it there may be a line that a rebalance is waited for.
        return code == 1 and err.endswith(f"twinlog: TW-REST-08: Connector {name} not found\n")

    wait_for(gone, GONE_S, f"{name} is gone")


def _drive(stage: Stage) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "heartbeat.json"
        config = stage.names.put_in({**heartbeat(), "tasks.max": "1"})
        file.write_text(json.dumps({"name": NAME, "config": config}), encoding="utf-8")
        steer_a_heartbeat(str(stage.names.put_in("http://<worker-1>")), file, NAME, "left")


COMMAND_LINE = Resource("command-line", PLAIN, (Act("an operator types", _drive),))
"""No answers are kept of it: whatever an answer says, the command does what it should."""
