"""Which Python runs Spark's tasks: the one that a setting or a variable names, or else the one that runs twinlog."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.spark.defaults_file import file_settings

TASKS = "PYSPARK_PYTHON"
DRIVER = "PYSPARK_DRIVER_PYTHON"
_SETTINGS = {TASKS: "spark.pyspark.python", DRIVER: "spark.pyspark.driver.python"}


def interpreters(conf: Mapping[str, str], environment: Mapping[str, str], own: str) -> dict[str, str]:
    """The two variables by which pyspark and its JVM choose a Python; `own` where nothing names one.

    spark-submit reads the settings before it starts a Python, and hands them over in these variables. A setting counts
    more than a variable, and `conf` more than `spark-defaults.conf`, as with spark-submit.
    """
    settings = {**file_settings(), **conf}
    return {name: settings.get(key) or environment.get(name) or own for name, key in _SETTINGS.items()}


def names_one(conf: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Whether the user has named a Python for Spark."""
    settings = {**file_settings(), **conf}
    return any(settings.get(key) or environment.get(name) for name, key in _SETTINGS.items())
