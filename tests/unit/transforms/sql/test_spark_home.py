"""Where SQL finds a Java and Spark's jars, and what it says where it finds none."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.errors import EngineError
from twinlog.transforms.sql import jvm as spark_home
from twinlog.transforms.sql.jvm import class_path, find_jars, find_java


def program(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "java").write_text("#!/bin/sh\n")
    (folder / "java").chmod(0o755)
    return folder / "java"


def jars(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "spark-catalyst_2.13-4.2.0.jar").touch()
    return folder


def test_java_is_that_of_java_home_or_else_on_the_path(tmp_path: Path) -> None:
    home, other = program(tmp_path / "home" / "bin"), program(tmp_path / "other")
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(other.parent)}) == str(home)
    assert find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(other.parent)}) == str(other)
    assert find_java({"PATH": str(other.parent)}) == str(other)
    with pytest.raises(EngineError, match="Java is missing: JAVA_HOME is unset, and the PATH lacks it"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(EngineError, match=r"JAVA_HOME is /gone, which lacks it, .* needs Java 17 or newer wherever a"):
        find_java({"JAVA_HOME": "/gone", "PATH": str(tmp_path)})


def test_jars_are_pysparks_or_those_of_spark_home_or_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A packed environment leaves pyspark to the workers, whose jars are elsewhere."""
    monkeypatch.setattr(spark_home.pyspark, "__file__", str(tmp_path / "zipped" / "pyspark" / "__init__.py"))
    with pytest.raises(
        EngineError, match=r"the jars of Spark are missing in .*zipped/pyspark/jars, .*: install pyspark"
    ):
        find_jars({}, tmp_path)
    container = jars(tmp_path / "__spark_libs__")
    assert find_jars({}, tmp_path) == container
    spark = jars(tmp_path / "spark" / "jars")
    assert find_jars({"SPARK_HOME": str(tmp_path / "spark")}, tmp_path) == spark
    own = jars(tmp_path / "zipped" / "pyspark" / "jars")
    assert find_jars({"SPARK_HOME": str(tmp_path / "spark")}, tmp_path) == own


def test_the_class_path_is_that_of_sparks_own_scripts(tmp_path: Path) -> None:
    """The archive of classes of Spark's JVM fits no other one."""
    there = jars(tmp_path / "pyspark" / "jars")
    (there / "slf4j-api-2.0.17.jar").touch()
    (there / "slf4j-api-docs.txt").touch()
    wanted = f"{there.parent / 'conf'}:{there / 'slf4j-api-2.0.17.jar'}:{there / '*'}"
    assert class_path(there) == wanted
