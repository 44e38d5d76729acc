"""`connect-mirror-maker` takes MirrorMaker 2's arguments and ends with its exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from twinlog.cli.kafka_scripts import MirrorMakerArguments, java_warnings, parse_mirror_maker

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
def test_what_is_accepted(file: Path, words: str, clusters: tuple[str, ...] | None, daemon: bool) -> None:
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
    assert warning == "KAFKA_HEAP_OPTS, KAFKA_OPTS: meant for a Java process of Kafka; nothing here reads it"
    (warning,) = java_warnings({"KAFKA_OPTS": "-Djava.security.auth.login.config=/etc/jaas.conf"})
    assert warning.endswith("write sasl.jaas.config into the properties")


def ended(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "twinlog.connect_mirror_maker", *words]
    environment = {**os.environ, "LOG_DIR": str(folder / "logs")}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def test_a_wrong_file_ends_with_2_before_anything_starts(file: Path) -> None:
    file.write_text(FILE + "tasks.max = 0\nnobody.knows = 1\n")
    for words in ([str(file)], ["-daemon", str(file)]):
        found = ended(*words, folder=file.parent)
        assert found.returncode == 2
        assert f"problem: {file}:5: tasks.max" in found.stderr
        assert f"warning: {file}:6: nobody.knows" in found.stderr
        assert "nothing was started" in found.stderr
    found = ended(str(file), "--clusters", "c", folder=file.parent)
    assert (found.returncode, "--clusters: 'c'" in found.stderr) == (2, True)
    assert not (file.parent / "logs").exists()


def test_a_daemon_without_a_log_file_reports_it(file: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    command = [sys.executable, "-m", "twinlog.connect_mirror_maker", "-daemon", str(file)]
    done = subprocess.run(
        command, env={**os.environ, "LOG_DIR": str(tmp_path / "taken")}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"connect-mirror-maker: cannot log to {tmp_path / 'taken'}: File exists; set LOG_DIR\n"


def test_a_misspelt_key_is_reported_though_it_is_only_ignored(tmp_path: Path) -> None:
    """Nothing is enabled then, no heartbeats are written, and only the ignored key shows why."""
    wrong = tmp_path / "mm2.properties"
    servers = "us-east.bootstrap.servers = a:1\nus-west.bootstrap.servers = b:1\n"
    wrong.write_text(
        f"clusters = us-east, us-west\n{servers}us-east->us-west.enable = true\nUs-east->us-west.topics = t\n"
        "emit.heartbeats.interval.seconds = -1\n"
    )
    result = ended(str(wrong), folder=tmp_path)
    assert result.returncode == 2
    for line, meant in ((4, "us-east->us-west.enabled"), (5, "us-east->us-west.topics")):
        assert any(
            warning.startswith(f"warning: {wrong}:{line}: ") and f"did you mean {meant}?" in warning
            for warning in result.stderr.splitlines()
        ), result.stderr
