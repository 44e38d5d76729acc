"""Where the Java and the jars of Spark are, for a process that may be an executor's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pyspark

from twinlog.errors import EngineError

_MARK = "spark-catalyst_*.jar"
_YARN = "__spark_libs__"
"""What YARN puts the jars of `spark.yarn.archive` or `spark.yarn.jars` into, in the directory of a container."""


def find_java(environment: Mapping[str, str] = os.environ) -> str:
    """The program of JAVA_HOME, or else the one on the PATH. Raises EngineError."""
    home = environment.get("JAVA_HOME", "").strip()
    if home:
        program = Path(home) / "bin" / "java"
        if os.access(program, os.X_OK):
            return str(program)
    found = shutil.which("java", path=environment.get("PATH"))
    if found is None:
        there = f"JAVA_HOME is {home}, which has none" if home else "JAVA_HOME is not set"
        raise EngineError(
            f"there is no Java: {there}, and there is none on the PATH; transform.sql needs Java 17 or newer wherever "
            "a task runs"
        )
    return found


def find_jars(environment: Mapping[str, str] = os.environ, here: Path | None = None) -> Path:
    """The directory of Spark's jars: pyspark's own, those of SPARK_HOME, or a YARN container's. Raises EngineError."""
    places = [Path(str(pyspark.__file__)).parent / "jars"]
    if environment.get("SPARK_HOME"):
        places.append(Path(environment["SPARK_HOME"]) / "jars")
    places.append((here or Path.cwd()) / _YARN)
    for place in places:
        if next(place.glob(_MARK), None) is not None:
            return place
    raise EngineError(
        f"there are no jars of Spark in {', '.join(map(str, places))}; transform.sql needs them wherever a task runs: "
        "install pyspark there with pip, which brings them, or set SPARK_HOME"
    )


def class_path(jars: Path) -> str:
    """What Spark's own scripts make of its jars (Spark class AbstractCommandBuilder)."""
    first = sorted(jars.glob("slf4j-api-*.jar"))
    return os.pathsep.join(map(str, (jars.parent / "conf", *first, jars / "*")))
