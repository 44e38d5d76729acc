"""`twinlog check` prints problems and warnings apart from its answer, and ends with 1 when something is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.unit.config.files import kafkas_files
from twinlog.cli.check import check
from twinlog.cli.main import app as main_app

BASE = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1,c:1\na->b.enabled = true\n"


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(check)
    return app


def write(folder: Path, text: str) -> str:
    file = folder / "mm2.properties"
    file.write_text(text, "utf-8")
    return str(file)


def test_a_good_file(app: typer.Typer, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [write(tmp_path, BASE + "a->b.topics = x.*, y # some\n")])
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "flow a->b",
        "  from       a:1",
        "  to         b:1, c:1",
        "  topics     x.*, y; they become a.<topic>",
        "  except     mm2.*\\.internal, .*\\.replica, __.*",
        "  new topics looked for every 5 s",
        "  settings   kept in step every 30 s",
        "  ACLs       kept in step every 30 s",
        "  groups     .*",
        "  except     console-consumer-.*, connect-.*, __.*",
        "  offsets    translated every 1 s; not committed on b",
        "  tasks      at most 1",
        "  positions  in mm2-offsets.a.internal on b",
        "  writes     without transactions",
        "  on a gap   hold",
        "  oversized  hold",
        "  refused    hold",
        "  renamed    stop when topics were copied to other names before",
        "not enabled, heartbeats only",
        "  b->a",
    ]
    warning, counts = result.stderr.splitlines()
    assert warning.startswith(f"{tmp_path}/mm2.properties:5: warning: a->b.topics: a comment after a value")
    assert counts == "0 errors, 1 warning"


def test_where_topics_begin(app: typer.Typer, tmp_path: Path) -> None:
    text = "a.consumer.auto.offset.reset = by_duration:P7D\na->b.twinlog.start.x\\\\..* = 2026-11-01\n"
    lines = CliRunner().invoke(app, [write(tmp_path, BASE + text)]).stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("  begins")]
    assert line == (
        "  begins     by_duration:P7D; x\\..*: 2026-11-01; topics that appear later at their earliest record"
    )


def test_what_is_off_or_of_ones_own(app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_filters_of_check.py").write_text("class F:\n    def accepts(self, name): return True\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = (
        "topic.filter.class = own_filters_of_check:F\ngroup.filter.class = own_filters_of_check:F\n"
        "emit.checkpoints.enabled = false\nsync.topic.acls.enabled = false\nrefresh.topics.interval.seconds = -1\n"
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    )
    lines = CliRunner().invoke(app, [write(tmp_path, BASE + text)]).stdout.splitlines()
    assert lines[3:11] == [
        "  topics     those that own_filters_of_check:F accepts; they keep their names",
        "  except     all other names",
        "  new topics not looked for",
        "  settings   kept in step every 30 s",
        "  ACLs       not kept in step",
        "  groups     those that own_filters_of_check:F accepts",
        "  except     all other names",
        "  offsets    not translated; not committed on b",
    ]


def test_every_problem_is_printed(app: typer.Typer, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [write(tmp_path, BASE + "tasks.max = 0\na->b.enable = true\n")])
    assert result.exit_code == 1
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    file = tmp_path / "mm2.properties"
    assert lines == [
        f"{file}:5: error: tasks.max: '0' is too small; write a whole number of 1 or more, for example 1 [TW-FILE-22]",
        f"{file}:6: error: a->b.enable: unknown key; did you mean a->b.enabled? [TW-FILE-01]",
        "2 errors, 0 warnings",
    ]


def test_explain(app: typer.Typer, tmp_path: Path) -> None:
    file = write(tmp_path, BASE + "tasks.max = 3\n")
    result = CliRunner().invoke(app, [file, "--explain", "tasks.max"])
    assert (result.exit_code, result.stdout) == (0, f"a->b: tasks.max = 3  ({file}:5, written as tasks.max)\n")
    assert CliRunner().invoke(app, [file, "--explain", "task.max"]).exit_code == 1


def test_clusters(app: typer.Typer, tmp_path: Path) -> None:
    file = write(tmp_path, BASE)
    assert CliRunner().invoke(app, [file, "--clusters", "b"]).exit_code == 0
    assert "--clusters: 'c'" in CliRunner().invoke(app, [file, "--clusters", "c"]).stderr


def test_clusters_are_named_as_for_run(tmp_path: Path) -> None:
    file = write(tmp_path, BASE)
    both = CliRunner().invoke(main_app, ["check", file, "--clusters", "b", "a"])
    assert (both.exit_code, "flow a->b" in both.stdout, "b->a" in both.stdout) == (0, True, True)
    one = CliRunner().invoke(main_app, ["check", file, "--clusters", "b"])
    assert (one.exit_code, "b->a" in one.stdout) == (0, False)
    refused = CliRunner().invoke(main_app, ["check", file, "b"])
    assert refused.exit_code == 2
    assert "connectors follow the file of a Connect worker" in " ".join(refused.stderr.split())


def test_the_mistakes_of_a_worker_and_of_its_connectors_are_printed_together(tmp_path: Path) -> None:
    worker, source = tmp_path / "w.properties", tmp_path / "source.json"
    worker.write_text(kafkas_files.DISTRIBUTED + "rest.advertised.port = x\nwrong = 1\n")
    config = {
        "connector.class": "MirrorSourceConnector",
        "source.cluster.alias": "a",
        "source.cluster.bootstrap.servers": "a:1",
        "source.cluster.sasl.jaas.config": "${file:/secrets:login}",
        "tasks.max": 0,
        "name": "s",
    }
    source.write_text(json.dumps(config, indent=1))
    found = CliRunner().invoke(main_app, ["check", str(worker), str(source)])
    assert found.exit_code == 1
    errors = [line.split(": ")[2] for line in found.stderr.splitlines() if ": error: " in line]
    assert errors == ["rest.advertised.port", "tasks.max"]
    assert ": warning: wrong: unknown key" in found.stderr
    assert "its-own-cluster" not in found.stderr
    source.write_text(json.dumps({**config, "tasks.max": 1}, indent=1))
    alone = CliRunner().invoke(main_app, ["check", str(worker), str(source)])
    assert (alone.exit_code, alone.stderr.splitlines()[-1].partition(",")[0]) == (1, "1 error")


def test_the_files_of_a_worker(tmp_path: Path) -> None:
    worker, source, beats = tmp_path / "w.properties", tmp_path / "source.json", tmp_path / "beats.properties"
    worker.write_text(kafkas_files.DISTRIBUTED)
    config = {"connector.class": "MirrorSourceConnector", "source.cluster.alias": "a", "topics": "x", "name": "s"}
    source.write_text(json.dumps({**config, "source.cluster.bootstrap.servers": "a:1"}))
    beats.write_text(
        "name = h\nconnector.class = MirrorHeartbeatConnector\nsource.cluster.alias = a\n"
        "source.cluster.bootstrap.servers = a:1\nemit.heartbeats.enabled = false\n"
    )
    found = CliRunner().invoke(main_app, ["check", *map(str, (worker, source, beats))])
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert lines[:4] == [
        "worker of group connect-cluster",
        "  cluster    localhost:9092",
        "  listens    http://:8083",
        "  state      in connect-configs, connect-offsets, connect-status",
    ]
    assert "connector s: source a->target" in lines
    assert "  topics     x; they become a.<topic>" in lines
    assert lines[-3:] == ["connector h: heartbeat a->target (switched off)", "  to         localhost:9092", lines[-1]]
    # Alone, as any worker would check it.
    assert "connector s: source a->target" in CliRunner().invoke(main_app, ["check", str(source)]).stdout
    source.write_text(json.dumps({key: value for key, value in config.items() if key != "name"}))
    found = CliRunner().invoke(main_app, ["check", str(source)])
    assert "source.cluster.bootstrap.servers: missing" in found.stderr
    wrong = {**config, "tasks.max": 0, "key.converter": "org.example.Mine", "target.cluster.bootstrap.servers": "b:1"}
    source.write_text(json.dumps(wrong, indent=1))
    for words in ([worker, source], [source]):
        found = CliRunner().invoke(main_app, ["check", *map(str, words)])
        assert (found.exit_code, f"{source}:6: error: tasks.max: '0'" in found.stderr) == (1, True)
        # Only where a worker is named something can be said of its cluster.
        assert ("another cluster than the worker's" in found.stderr) is (worker in words)
    found = CliRunner().invoke(main_app, ["check", str(worker), "--explain", "topics"], env={"COLUMNS": "300"})
    assert (found.exit_code, "no file of MirrorMaker 2" in found.stderr) == (2, True)


def test_output_that_has_no_room_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "twinlog", "--version"]
        found = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    said = "twinlog: TW-USE-02: writing the output failed: No space left on device\n"
    assert (found.returncode, found.stderr) == (1, said)
