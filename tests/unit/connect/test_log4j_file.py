"""The levels of a log4j file count in a worker, and follow changes of the file."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from twinlog.clock import SYSTEM
from twinlog.connect.log4j_file import Log4jFile, log4j_file, logger_levels


def test_levels_of_both_log4js() -> None:
    assert logger_levels({"connect.root.logger.level": "INFO", "log4j.logger.org.apache.kafka": "DEBUG, CONSOLE"}) == {
        "root": "INFO",
        "org.apache.kafka": "DEBUG",
    }
    new = {
        "rootLogger.level": "warn",
        "logger.m.name": "org.x",
        "logger.m.level": "TRACE",
        "appender.a.type": "Console",
    }
    assert list(logger_levels(new).items()) == [("root", "WARN"), ("org.x", "TRACE")]


@pytest.mark.parametrize(
    "option",
    ["-Dlog4j2.configurationFile=HERE", "-Xmx1g -Dlog4j2.configurationFile=file:HERE", '-Dlog4j.configuration="HERE"'],
)
def test_the_file_is_found_in_the_options_for_java(option: str, tmp_path: Path) -> None:
    file = tmp_path / "log4j2.properties"
    file.write_text("rootLogger.level=INFO")
    assert log4j_file({"KAFKA_LOG4J_OPTS": option.replace("HERE", str(file))}) == file


@pytest.mark.parametrize(
    "option", ["", "-Dother=1", "-Dlog4j2.configurationFile=HERE.gone", "-Dlog4j2.configurationFile=HERE"]
)
def test_a_missing_file_or_another_format_is_left_out(option: str, tmp_path: Path) -> None:
    file = tmp_path / "log4j2.yaml"
    file.write_text("Configuration:")
    assert log4j_file({"KAFKA_LOG4J_OPTS": option.replace("HERE", str(file))}) is None


class Recorder:
    """The levels of loggers as they are set."""

    def __init__(self) -> None:
        self.levels: dict[str, str] = {}
        self.changed = threading.Event()

    def set_level(self, name: str, level: str) -> None:
        if name == "root":
            self.levels.clear()
        self.levels[name] = level
        self.changed.set()


def test_levels_follow_the_file(tmp_path: Path) -> None:
    file, seen = tmp_path / "log4j2.properties", Recorder()
    logger = "logger.mirror.name=org.apache.kafka.connect.mirror\nlogger.mirror.level={}\n"
    file.write_text("rootLogger.level=INFO\n" + logger.format("DEBUG"))
    followed = Log4jFile(file, seen.set_level, SYSTEM)
    followed.start()
    assert seen.levels == {"root": "INFO", "org.apache.kafka.connect.mirror": "DEBUG"}
    file.write_text("rootLogger.level=WARN\n" + logger.format("TRACE"))
    followed.apply()
    assert seen.levels == {"root": "WARN", "org.apache.kafka.connect.mirror": "TRACE"}
    file.write_text("rootLogger.level=ERROR\n")
    followed.apply()
    assert seen.levels == {"root": "ERROR", "org.apache.kafka.connect.mirror": "ERROR"}
    followed.stop()


def test_the_same_content_leaves_levels_of_the_rest_api_alone(tmp_path: Path) -> None:
    file, seen = tmp_path / "log4j2.properties", Recorder()
    file.write_text("rootLogger.level=INFO\n")
    followed = Log4jFile(file, seen.set_level, SYSTEM)
    followed.apply()
    seen.levels["root"] = "DEBUG"
    followed.apply()
    assert seen.levels == {"root": "DEBUG"}


def test_a_changed_file_counts_after_its_interval(tmp_path: Path) -> None:
    file, seen = tmp_path / "log4j2.properties", Recorder()
    file.write_text("rootLogger.level=INFO\nmonitorInterval=1\n")
    followed = Log4jFile(file, seen.set_level, SYSTEM)
    followed.start()
    seen.changed.clear()
    new = file.with_name("new")
    new.write_text("rootLogger.level=DEBUG\nmonitorInterval=1\n")
    new.replace(file)
    assert seen.changed.wait(20)
    followed.stop()
    assert seen.levels == {"root": "DEBUG"}


def test_a_wrong_level_and_a_missing_file_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, seen = tmp_path / "log4j2.properties", Recorder()
    file.write_text("rootLogger.level=INFO\nlogger.a.name=a\nlogger.a.level=${LEVEL}\n")
    followed = Log4jFile(file, seen.set_level, SYSTEM)
    with caplog.at_level(logging.WARNING):
        followed.apply()
        file.unlink()
        followed.apply()
    assert seen.levels == {"root": "INFO"}
    wrong, gone = (record.getMessage() for record in caplog.records)
    assert "a: '${LEVEL}' is no level; expected any of OFF, FATAL" in wrong
    assert "the levels of loggers stay as they are" in gone
