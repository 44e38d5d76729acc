"""Spark workers that have no twinlog: it comes with the application, as an archive.

`make test` packs it and imports it; `make scenarios` has a standalone Spark fetch it and copy with it.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import twinlog
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.spark.cluster import SparkCluster, spark_home
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.mirror_process import flow_properties
from tests.integration.running import RunTwinlog

FOLDER = "twinlog-env"
BARE = str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
"""The interpreter below the environment of this process, without its packages."""


IN_TASKS = (
    *("batches", "copier", "kafka", "lease", "mirror.offsets", "settings", "transforms"),
    *("spark.dataframes.range_reader", "spark.dataframes.writer", "ops.replay.task"),
    *("ops.verify.recheck", "ops.verify.task"),
)
IMPORT = f"""
import importlib, pkgutil, sys
import twinlog.spark.source
for name in {IN_TASKS!r}:
    package = importlib.import_module("twinlog." + name)
    for found in pkgutil.walk_packages(getattr(package, "__path__", ()), package.__name__ + "."):
        importlib.import_module(found.name)
print(twinlog.__file__)
"""


def gather(home: Path) -> Path:
    """What `pip install --target` makes of a wheel and what it needs, but for pyspark: out of this environment."""
    folder = home / FOLDER
    shutil.copytree(Path(twinlog.__file__).parent, folder / "twinlog", ignore=shutil.ignore_patterns("__pycache__"))
    wanted, packed = ["twinlog"], {"pyspark", "py4j"}
    while wanted:
        name = wanted.pop()
        packed.add(name)
        found = distribution(name)
        for file in found.files or ():
            place, inside = Path(str(file.locate())), not str(file).startswith("..")
            if name != "twinlog" and inside and place.is_file() and place.suffix != ".pyc":
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(place, folder / file)
        needs = [Requirement(line) for line in found.requires or ()]
        wanted += [
            one.name.lower()
            for one in needs
            if one.name.lower() not in packed and (one.marker is None or one.marker.evaluate({"extra": ""}))
        ]
    return folder


def pack(folder: Path) -> Path:
    archive = folder.with_suffix(".tar.gz")
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for place in folder.iterdir():
            tar.add(place, place.name)
    return archive


def lacks_twinlog() -> bool:
    return subprocess.run([BARE, "-c", "import twinlog"], check=False, capture_output=True).returncode != 0


def test_what_is_packed_has_all_that_tasks_import(tmp_path: Path) -> None:
    assert lacks_twinlog()
    folder = gather(tmp_path)
    # As an executor has them: from Spark itself.
    sparks = sorted((spark_home() / "python/lib").glob("*.zip"))
    done = subprocess.run(
        [BARE, "-c", IMPORT],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": os.pathsep.join(map(str, [folder, *sparks]))},
    )
    assert (done.returncode, done.stdout.strip()) == (0, str(folder / "twinlog/__init__.py")), done.stderr


@pytest.mark.scenario
def test_workers_without_twinlog_get_it_with_the_application(
    clusters: tuple[KafkaCluster, KafkaCluster],
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    near, far = clusters
    topic = create_topic(near, new_name("t"))
    produce(near, topic, numbered(100))
    assert lacks_twinlog()
    archive = pack(gather(tmp_path))
    conf = {
        "spark.archives": f"{archive}#{FOLDER}",
        "spark.executorEnv.PYTHONPATH": FOLDER,
        "spark.pyspark.python": BARE,
    }
    with SparkCluster() as spark:
        spark.have(1)
        # Spark plans on the driver's host with the same Python.
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / FOLDER))
        options = itertools.chain.from_iterable(("--conf", f"{key}={value}") for key, value in conf.items())
        file = flow_properties("near->far", near, far, {"topics": topic})
        process = run_twinlog("near, far", file, *spark.options, *options, "--until", "caught-up")
        assert process.wait(300) == 0, process.log
        wait_for(lambda: not spark.workers[0].executors, 100, "its executor has gone")
    assert [int(record.value or b"") for record in consume(far, f"near.{topic}")] == list(range(100))
