#!/usr/bin/env python
"""Starts a Spark executor in its pod: the image has this as `executor` on its PATH, which Spark gives as the argument.

Spark describes the executor in variables (its class BasicExecutorFeatureStep); what becomes of them here is what the
start script of Spark's own images does. pyspark brings the jars.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
OPTION = "SPARK_JAVA_OPT_"
ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def command(variables: Mapping[str, str], jars: Path, java: str) -> list[str]:
    """The executor's command line; ends this process with a line when Spark left something out."""
    missing = [name for name in (*ARGUMENTS.values(), "SPARK_EXECUTOR_MEMORY") if name not in variables]
    if missing:
        sys.exit(f"{', '.join(missing)}: not set; Spark on Kubernetes starts this, with these variables")
    numbered = sorted((int(name.removeprefix(OPTION)), name) for name in variables if name.startswith(OPTION))
    memory = variables["SPARK_EXECUTOR_MEMORY"]
    classes = [variables.get("SPARK_CLASSPATH", ""), f"{jars}/*", variables.get("SPARK_EXTRA_CLASSPATH", "")]
    given = [word for option, name in ARGUMENTS.items() for word in (option, variables[name])]
    return [
        java,
        *(variables[name] for _, name in numbered),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        os.pathsep.join(filter(None, classes)),
        BACKEND,
        *given,
    ]


def main() -> None:
    """Become the executor."""
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        sys.exit("this Python has no pyspark")
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None:
        sys.exit("there is no java on the PATH, and JAVA_HOME is not set")
    started = command(os.environ, Path(pyspark.origin).parent / "jars", java)
    os.execv(started[0], started)


if __name__ == "__main__":
    main()
