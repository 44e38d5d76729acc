"""Spark Connect is refused in each form, with the way out, before anything is started."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from twinlog.errors import EngineError
from twinlog.mirroring import start
from twinlog.spark import spark_connect
from twinlog.spark.spark_connect import WAY_OUT, refuse_connect


def a_file(home: Path) -> Path:
    file = home / "mm2.properties"
    file.write_text("clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n")
    return file


@pytest.mark.parametrize(
    ("master", "settings", "environment", "named"),
    [
        ("sc://far:15002", {}, {}, "--master = sc://far:15002"),
        (None, {"spark.remote": "sc://far"}, {}, "spark.remote = sc://far"),
        (None, {"spark.api.mode": "Connect"}, {}, "spark.api.mode = connect"),
        (None, {}, {"SPARK_REMOTE": "local"}, "SPARK_REMOTE = local"),
        ("local[2]", {}, {"SPARK_API_MODE": "connect"}, "SPARK_API_MODE = connect"),
        (None, {}, {"SPARK_CONNECT_MODE": "1"}, "SPARK_CONNECT_MODE = 1"),
    ],
)
def test_who_asks_for_it_is_told(
    master: str | None, settings: Mapping[str, str], environment: Mapping[str, str], named: str
) -> None:
    refused = re.escape(f"{named} asks for Spark Connect: leave it out. {WAY_OUT}")
    with pytest.raises(EngineError, match=f"^{refused}$"):
        refuse_connect(master, settings, environment)


def test_every_other_spark_is_none() -> None:
    for master in (None, "local[2]", "spark://m:7077", "k8s://m", "yarn"):
        refuse_connect(master, {"spark.api.mode": "classic"}, {"SPARK_CONNECT_MODE": "0"})


def test_its_client_alone_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_connect, "find_spec", lambda name: None if name == "pyspark.core" else object())
    with pytest.raises(EngineError, match=r"only Spark's client is installed \(pyspark-client\): install pyspark"):
        refuse_connect(None, {}, {})


def test_the_command_ends_with_the_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "twinlog", "run", str(a_file(tmp_path))],
        env={**os.environ, "SPARK_REMOTE": "sc://far"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert f"twinlog ends: SPARK_REMOTE = sc://far asks for Spark Connect: leave it out. {WAY_OUT}\n" in done.stderr


class RemoteSession:
    """As a session of Spark Connect: it has no Spark, and its class is of that package."""


RemoteSession.__module__ = "pyspark.sql.connect.session"


@pytest.mark.parametrize(
    ("session", "text"),
    [
        (RemoteSession(), f"this is a session of Spark Connect. {WAY_OUT}"),
        ("local[2]", "a SparkSession is expected, and this is str"),
    ],
)
def test_a_session_of_it_is_refused_before_any_cluster_is_asked(session: object, text: str, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=f"^{re.escape(text)}$"):
        start(session, a_file(tmp_path))
