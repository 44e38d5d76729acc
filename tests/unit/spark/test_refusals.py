"""A refused setting is named with its value and where it was set, in front of Spark's own reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.spark.refusals import SettingFinder, reason_of

GIVEN = {"spark.executor.memory": "--conf", "spark.master": "--master", "spark.ssl.keyPassword": "--conf"}
SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.python.task.killTimeout": "1s",
    "spark.executor.memory": "abc",
    "spark.master": "nonsense",
    "spark.ssl.keyPassword": "hush",
}


@pytest.fixture(autouse=True)
def defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of settings that nobody gave."""
    file = tmp_path / "spark-defaults.conf"
    file.write_text("# spark.ui.port many\nspark.network.timeout   soon\nspark.port.maxRetries=lots\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return file


@pytest.mark.parametrize(
    ("reason", "setting"),
    [
        ("Failed to parse byte string: abc", "spark.executor.memory = abc (--conf)"),
        ("Could not parse Master URL: 'nonsense'", "spark.master = nonsense (--master)"),
        # A key that is named counts more than any value.
        (
            "spark.python.task.killTimeout should be a time, unlike abc",
            "spark.python.task.killTimeout = 1s (set by twinlog)",
        ),
        ("spark.network.timeout should be a time, but was soon", "spark.network.timeout = soon (in FILE)"),
        ("lots: not a number", "spark.port.maxRetries = lots (in FILE)"),
        ("spark.ssl.keyPassword is too short", "spark.ssl.keyPassword = (hidden) (--conf)"),
        ("Invalid maximum heap size: -Xmxabc", "spark.executor.memory = abc (--conf)"),
        ("Executor memory must be a positive number", "spark.executor.memory = abc (--conf)"),
        ("Master must either be yarn or start with spark, k8s, or local", "spark.master = nonsense (--master)"),
        # Neither a part of a word nor what many settings hold is a hint.
        ("abcdef is false", None),
        ("spark.executor.memoryOverhead is large", None),
    ],
)
def test_the_setting_is_found(reason: str, setting: str | None, defaults: Path) -> None:
    expected = reason if setting is None else f"{setting.replace('FILE', str(defaults))}: {reason}"
    assert SettingFinder(SETTINGS, GIVEN).sentence(reason) == expected


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            (
                "WARNING: Using incubator modules: jdk.incubator.vector",
                'Exception in thread "main" org.apache.spark.SparkException: Master must start with yarn,',
                "spark, k8s, or local",
                "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1047)",
                "Caused by: java.lang.Nothing: else",
            ),
            "Master must start with yarn, spark, k8s, or local",
        ),
        (
            ("Invalid maximum heap size: -Xmxabc", "Error: Could not create the Java Virtual Machine."),
            "Invalid maximum heap size: -Xmxabc",
        ),
        (("NOTE: Picked up JDK_JAVA_OPTIONS: -Xss1m", "", "JAVA_HOME is not set"), "JAVA_HOME is not set"),
        (("Error: A JNI error has occurred",), "A JNI error has occurred"),
        (("java.lang.ClassNotFoundException: no.such.Class", "\tat x"), "ClassNotFoundException: no.such.Class"),
        (("Picked up JAVA_TOOL_OPTIONS: -Xss1m",), None),
        ((), None),
    ],
)
def test_the_reason_is_found(lines: tuple[str, ...], reason: str | None) -> None:
    assert reason_of(lines) == reason
