"""Which Python runs Spark's tasks: a setting counts more than a variable, as with spark-submit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from twinlog.spark.session import interpreters, names_one


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
