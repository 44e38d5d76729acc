"""Kafka's three scripts take the arguments of Kafka's own scripts, and end with their exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.unit.config.files import kafkas_files
from twinlog.cli.kafka_scripts import (
    DISTRIBUTED,
    STANDALONE,
    ConnectArguments,
    MirrorMakerArguments,
    Script,
    java_warnings,
    parse_connect,
    parse_mirror_maker,
    run_distributed,
    run_standalone,
)

FILE = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(
    ("words", "clusters", "daemon"),
    [
        ("FILE", None, False),
        ("FILE --clusters a", ("a",), False),
        ("FILE --clusters a b c", ("a", "b", "c"), False),
        ("-daemon FILE", None, True),
        ("-daemon FILE --clusters a b", ("a", "b"), True),
    ],
)
def test_mirror_maker_accepts(file: Path, words: str, clusters: tuple[str, ...] | None, daemon: bool) -> None:
    found = parse_mirror_maker(words.replace("FILE", str(file)).split(), {})
    assert found == MirrorMakerArguments(file, clusters, daemon, "mirrorMaker")


def test_the_environment_of_kafkas_script_counts(file: Path) -> None:
    assert parse_mirror_maker([str(file)], {"EXTRA_ARGS": "-name west -loggc"}).log_name == "west"
    assert parse_mirror_maker([str(file)], {"EXTRA_ARGS": "-daemon -name west"}).daemon
    # A shell would not look at quotes there either.
    assert parse_mirror_maker([str(file)], {"EXTRA_ARGS": "-name it's"}).log_name == "it's"
    assert parse_mirror_maker([str(file)], {"EXTRA_ARGS": ""}) == MirrorMakerArguments(file, None, False, "mirrorMaker")


@pytest.mark.parametrize(
    ("words", "code", "printed"),
    [
        ([], 1, "USAGE: connect-mirror-maker [-daemon] mm2.properties"),
        (["-daemon"], 255, "the following arguments are required: mm2.properties"),
        (["--clusters", "a", "FILE"], 255, "the following arguments are required: mm2.properties"),
        (["FILE", "other"], 255, "unrecognized arguments: other"),
        (["FILE", "--cluster", "a"], 255, "unrecognized arguments: --cluster a"),
        (["FILE", "--clusters"], 255, "expected at least one argument"),
        (["FILE", "-daemon"], 255, "'-daemon' must be the first"),
        (["-name", "x", "FILE"], 255, "unrecognized arguments: -name"),
        (["no-such-file"], 255, "cannot read file: 'no-such-file'"),
        (["."], 255, "cannot read file: '.'"),
    ],
)
def test_what_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str], words: Sequence[str], code: int, printed: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        parse_mirror_maker([word.replace("FILE", str(file)) for word in words], {})
    assert caught.value.code == code
    assert printed in capsys.readouterr().err


def test_help_names_every_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse_mirror_maker(["--help"], {})
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("-daemon", "--clusters CLUSTER [CLUSTER ...]", "mm2.properties"))


def test_java_options_are_reported_once() -> None:
    assert java_warnings({"KAFKA_HEAP_OPTS": "", "PATH": "/bin"}) == []
    (warning,) = java_warnings({"KAFKA_HEAP_OPTS": "-Xmx2G", "KAFKA_OPTS": "-Dx=y"})
    assert warning == "KAFKA_HEAP_OPTS, KAFKA_OPTS: meant for a Java process of Kafka; twinlog ignores it"
    (warning,) = java_warnings({"KAFKA_OPTS": "-Djava.security.auth.login.config=/etc/jaas.conf"})
    assert warning.endswith("write sasl.jaas.config into the properties")


def mirror_maker_ended(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "twinlog.connect_mirror_maker", *words]
    environment = {**os.environ, "LOG_DIR": str(folder / "logs")}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def test_a_wrong_file_ends_with_2_before_anything_starts(file: Path) -> None:
    file.write_text(FILE + "tasks.max = 0\nnobody.knows = 1\n")
    for words in ([str(file)], ["-daemon", str(file)]):
        found = mirror_maker_ended(*words, folder=file.parent)
        assert found.returncode == 2
        assert f"{file}:5: error: tasks.max" in found.stderr
        assert f"{file}:6: warning: nobody.knows" in found.stderr
        assert "nothing was started" in found.stderr
    found = mirror_maker_ended(str(file), "--clusters", "c", folder=file.parent)
    assert (found.returncode, "--clusters: 'c'" in found.stderr) == (2, True)
    assert not (file.parent / "logs").exists()


def test_a_daemon_without_a_log_file_reports_it(file: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    command = [sys.executable, "-m", "twinlog.connect_mirror_maker", "-daemon", str(file)]
    done = subprocess.run(
        command, env={**os.environ, "LOG_DIR": str(tmp_path / "taken")}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    taken = tmp_path / "taken"
    assert done.stderr == f"connect-mirror-maker: TW-USE-02: cannot log to {taken}: File exists; set LOG_DIR\n"


def test_a_misspelt_key_is_reported_though_it_is_only_ignored(tmp_path: Path) -> None:
    """Nothing is enabled then, no heartbeats are written, and only the ignored key shows why."""
    wrong = tmp_path / "mm2.properties"
    servers = "us-east.bootstrap.servers = a:1\nus-west.bootstrap.servers = b:1\n"
    wrong.write_text(
        f"clusters = us-east, us-west\n{servers}us-east->us-west.enable = true\nUs-east->us-west.topics = t\n"
        "emit.heartbeats.interval.seconds = -1\n"
    )
    result = mirror_maker_ended(str(wrong), folder=tmp_path)
    assert result.returncode == 2
    for line, meant in ((4, "us-east->us-west.enabled"), (5, "us-east->us-west.topics")):
        assert any(
            warning.startswith(f"{wrong}:{line}: warning: ") and f"did you mean {meant}?" in warning
            for warning in result.stderr.splitlines()
        ), result.stderr


HEARTBEAT = """\
name = beats
connector.class = MirrorHeartbeatConnector
source.cluster.alias = a
source.cluster.bootstrap.servers = 127.0.0.1:1
"""


@pytest.mark.parametrize("script", [DISTRIBUTED, STANDALONE])
def test_connect_scripts_accept(script: Script) -> None:
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
    assert warning == "KAFKA_HEAP_OPTS: meant for a Java process of Kafka; twinlog ignores it"


def ended(kind: str, *words: object, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"twinlog.cli.connect_{kind}", *map(str, words)]
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
    assert f"{connector}:5: error: tasks.max: '0' is too small; write a whole number of 1 or more" in found.stderr
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
        f"connect-distributed: continues in the background and logs to {log}\n",
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
    assert (code, ": it cannot be read" in errors) == (2, True)
    assert not (tmp_path / "logs").exists()


def test_an_address_that_cannot_be_had_ends_with_2(tmp_path: Path) -> None:
    worker = tmp_path / "w.properties"
    worker.write_text(kafkas_files.DISTRIBUTED + "listeners = http://192.0.2.1:1\n")
    found = ended("distributed", worker, "c.json")
    assert (found.returncode, "cannot listen at http://192.0.2.1:1" in found.stderr) == (2, True)
    assert "c.json: ignored; connectors of a distributed worker are created over its REST API" in found.stderr
