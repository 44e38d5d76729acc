"""The Python of Spark's tasks: a setting counts more than a variable, as with spark-submit. The removals of a start."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from twinlog.process.scratch import PREFIX
from twinlog.spark.jvm.process import Jvm
from twinlog.spark.session import SparkEngine, interpreters, names_one


@pytest.mark.parametrize(
    ("conf", "environment", "tasks", "driver"),
    [
        ({}, {}, "own", "own"),
        ({}, {"PYSPARK_PYTHON": "/v"}, "/v", "own"),
        ({"spark.pyspark.python": "/s"}, {"PYSPARK_PYTHON": "/v"}, "/s", "own"),
        ({"spark.pyspark.driver.python": "/d"}, {"PYSPARK_DRIVER_PYTHON": "/e"}, "own", "/d"),
        ({"spark.other": "/s"}, {"PYSPARK_DRIVER_PYTHON": "/e"}, "own", "/e"),
    ],
)
def test_who_counts(conf: Mapping[str, str], environment: Mapping[str, str], tasks: str, driver: str) -> None:
    chosen = interpreters(conf, environment, "own")
    assert chosen == {"PYSPARK_PYTHON": tasks, "PYSPARK_DRIVER_PYTHON": driver}
    assert names_one(conf, environment) is ((tasks, driver) != ("own", "own"))


def test_the_file_of_defaults_counts_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("spark.pyspark.python  /f\n")
    assert interpreters({}, {}, "own")["PYSPARK_PYTHON"] == "/f"
    assert interpreters({"spark.pyspark.python": "/s"}, {}, "own")["PYSPARK_PYTHON"] == "/s"


def test_a_start_removes_the_directories_of_killed_runs_whose_jvms_end_meanwhile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The JVM of a killed run locks its directory, and ends some seconds after the begin of the next run."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TWINLOG_CACHE", str(tmp_path))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    dead, ending = tmp_path / f"{PREFIX}dead", tmp_path / f"{PREFIX}ending"
    for path in (dead, ending):
        path.mkdir()
    lock = os.open(ending, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)

    def start(*_: Any) -> None:
        assert not dead.exists()
        assert ending.exists()
        os.close(lock)

    monkeypatch.setattr(Jvm, "start", start)
    monkeypatch.setattr(Jvm, "session", lambda *_: None)
    engine = SparkEngine("local[1]", {"spark.pyspark.python": sys.executable})
    try:
        engine.start()
        assert not ending.exists()
    finally:
        engine.stop(1.0)
