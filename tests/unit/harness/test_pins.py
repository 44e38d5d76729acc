"""Jars are used only when they are the pinned ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.jvm.jars import FLINK_VERSION, KAFKA_VERSION, OLDER_VERSION, SPARK_VERSION
from harness.jvm.pins import PINS, check_pins, read_pins, write_pins


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    for name in ("connect-runtime-1.0.jar", "jersey-2.jar"):
        (folder / name).write_text(name)
    write_pins([folder], tmp_path / "pins")
    return folder


def test_the_pinned_jars_are_taken(jars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_pins("1.0", jars.glob("*.jar"), jars.parent / "pins")
    assert capsys.readouterr().err == ""


def test_a_jar_of_other_bytes_is_refused(jars: Path) -> None:
    (jars / "jersey-2.jar").write_text("other")
    with pytest.raises(HarnessError, match=r"jersey-2\.jar of Kafka 1\.0 has another hash"):
        check_pins("1.0", jars.glob("*.jar"), jars.parent / "pins")
    with pytest.raises(HarnessError, match="another file than the one that is pinned"):
        write_pins([jars], jars.parent / "pins")


def test_a_jar_that_no_pin_names_is_refused(jars: Path) -> None:
    (jars / "new-1.jar").write_text("new")
    with pytest.raises(HarnessError, match=r"new-1\.jar of Kafka 1\.0 is not named"):
        check_pins("1.0", jars.glob("*.jar"), jars.parent / "pins")


def test_a_release_without_pins_is_taken_with_a_word(jars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_pins("2.0", jars.glob("*.jar"), jars.parent / "pins")
    assert "Kafka 2.0 has no pinned hashes" in capsys.readouterr().err


def test_all_releases_are_pinned() -> None:
    pinned = read_pins(PINS)
    for version in (KAFKA_VERSION, OLDER_VERSION):
        assert f"connect-runtime-{version}.jar" in pinned
        assert f"connect-basic-auth-extension-{version}.jar" in pinned
    assert f"spark-sql-kafka-0-10_2.13-{SPARK_VERSION}.jar" in pinned
    assert f"flink-clients-{FLINK_VERSION}.jar" in pinned
