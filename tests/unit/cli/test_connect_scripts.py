"""`connect-distributed` and `connect-standalone` take Kafka's arguments and end with its exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.unit.config import kafkas_files
from twinlog.cli.kafka_scripts import (
    DISTRIBUTED,
    STANDALONE,
    ConnectArguments,
    Script,
    java_warnings,
    parse_connect,
    run_distributed,
    run_standalone,
)

HEARTBEAT = """\
name = beats
connector.class = MirrorHeartbeatConnector
source.cluster.alias = a
source.cluster.bootstrap.servers = 127.0.0.1:1
"""


@pytest.mark.parametrize("script", [DISTRIBUTED, STANDALONE])
def test_what_is_accepted(script: Script) -> None:
    file = Path("w.properties")
    name = script.log_name
    assert parse_connect(script, ["w.properties"], {}) == ConnectArguments(file, (), False, name)
    assert parse_connect(script, ["-daemon", "w.properties", "c.json"], {}) == ConnectArguments(
        file, (Path("c.json"),), True, name
    )
    assert parse_connect(script, ["w.properties"], {"EXTRA_ARGS": "-daemon -name mine"}) == ConnectArguments(
        file, (), True, "mine"
    )


@pytest.mark.parametrize("words", [[], ["-daemon"], ["--help"], ["w.properties", "--help"]])
def test_the_usage_ends_with_1(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse_connect(STANDALONE, words, {})
    assert caught.value.code == 1
    assert capsys.readouterr().err == (
        "USAGE: connect-standalone [-daemon] connect-standalone.properties "
        "[connector1.properties connector2.json ...]\n"
    )


def test_the_login_file_is_read_and_nothing_else_of_java() -> None:
    login = {"KAFKA_OPTS": "-Djava.security.auth.login.config=/etc/jaas.conf"}
    assert java_warnings(login, reads_login_file=True) == []
    (warning,) = java_warnings({**login, "KAFKA_HEAP_OPTS": "-Xmx1G"}, reads_login_file=True)
    assert warning == "KAFKA_HEAP_OPTS: meant for a Java process of Kafka; nothing here reads it"


def ended(kind: str, *words: object, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"twinlog.connect_{kind}", *map(str, words)]
    env = {**os.environ, **(environment or {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[object, str]]:
    """How a script ends by itself in this process, before it starts anything: its exit code, and what it prints."""

    def run(script: Callable[[], None], *words: object) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", [script.__name__, *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            script()
        return caught.value.code, capsys.readouterr().err

    return run


def test_a_wrong_worker_ends_with_2_and_a_wrong_connector_with_3(
    tmp_path: Path, refused: Callable[..., tuple[object, str]]
) -> None:
    worker, connector = tmp_path / "w.properties", tmp_path / "c.properties"
    worker.write_text(kafkas_files.STANDALONE.replace("/tmp/connect.offsets", str(tmp_path / "offsets")))
    connector.write_text(HEARTBEAT + "tasks.max = 0\n")
    code, errors = refused(run_standalone, tmp_path / "missing")
    assert (code, "nothing was started" in errors) == (2, True)
    found = ended("standalone", worker, connector)
    assert found.returncode == 3
    assert f"problem: {connector}:5: tasks.max: '0'; expected a whole number from 1" in found.stderr
    assert not (tmp_path / "offsets").exists()
    code, errors = refused(run_distributed, worker)
    assert (code, "group.id: missing" in errors) == (2, True)


def test_a_daemon_says_where_it_logs(tmp_path: Path) -> None:
    worker = tmp_path / "w.properties"
    # It ends at once: nobody may listen there.
    worker.write_text(kafkas_files.DISTRIBUTED + "listeners = http://192.0.2.1:1\n")
    found = ended("distributed", "-daemon", worker, environment={"LOG_DIR": str(tmp_path / "logs")})
    log = tmp_path / "logs" / "connectDistributed.out"
    assert (found.returncode, found.stderr) == (
        0,
        f"connect-distributed: goes on in the background and logs to {log}\n",
    )
    log.write_text("of another one\n")
    assert ended("distributed", "-daemon", worker, environment={"LOG_DIR": str(tmp_path / "logs")}).returncode == 0
    assert log.read_text().startswith("of another one\n")
    found = ended("distributed", "-daemon", worker, environment={"LOG_DIR": str(worker)})
    assert (found.returncode, "set LOG_DIR" in found.stderr) == (1, True)


def test_users_that_cannot_be_read_keep_a_daemon_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., tuple[object, str]]
) -> None:
    worker = tmp_path / "w.properties"
    worker.write_text(kafkas_files.DISTRIBUTED + "rest.extension.classes = BasicAuthSecurityRestExtension\n")
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setenv("KAFKA_OPTS", "-Djava.security.auth.login.config=/no/where")
    code, errors = refused(run_distributed, "-daemon", worker)
    assert (code, "problem: /no/where" in errors) == (2, True)
    assert not (tmp_path / "logs").exists()


def test_an_address_that_cannot_be_had_ends_with_2(tmp_path: Path) -> None:
    worker = tmp_path / "w.properties"
    worker.write_text(kafkas_files.DISTRIBUTED + "listeners = http://192.0.2.1:1\n")
    found = ended("distributed", worker, "c.json")
    assert (found.returncode, "cannot listen at http://192.0.2.1:1" in found.stderr) == (2, True)
    assert "c.json: ignored; connectors of a distributed worker are created over its REST API" in found.stderr
