#!/usr/bin/env python
"""Starts Spark's driver in its pod, in cluster mode: the image has this as `driver` on its PATH, as Spark calls it.

Spark mounts its settings and names them in the arguments; what becomes of them here is what the start script of Spark's
own images does. pyspark brings spark-submit.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path

ADDRESS = "SPARK_DRIVER_BIND_ADDRESS"


def command(variables: Mapping[str, str], home: Path, arguments: list[str]) -> list[str]:
    """The driver's command line; ends this process with a line when Spark left something out."""
    if ADDRESS not in variables:
        sys.exit(f"{ADDRESS}: not set; Spark on Kubernetes starts this, with this variable")
    submit = str(home / "bin" / "spark-submit")
    settings = ["--conf", f"spark.driver.bindAddress={variables[ADDRESS]}", "--deploy-mode", "client"]
    return [submit, *settings, *arguments]


def main() -> None:
    """Become the driver."""
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        sys.exit("this Python has no pyspark")
    home = Path(pyspark.origin).parent
    started = command(os.environ, home, sys.argv[1:])
    os.environ["SPARK_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.execv(started[0], started)


if __name__ == "__main__":
    main()
