"""The command line of a JVM that runs a class of Kafka."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from harness.jvm.archive import use_options
from harness.jvm.jars import KAFKA_VERSION, Parts, classpath_argument
from harness.jvm.java import java_command

Jit = Literal["quick", "full"]
"""`quick` starts and idles cheaply (C1 compiler, serial GC, no figures for other programs twenty times a second);
`full` is what a production broker runs with."""

_JIT_OPTIONS: dict[Jit, list[str]] = {
    "quick": ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"],
    "full": ["-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"],
}


def jvm_command(
    heap: str, jit: Jit, main_class: str, version: str = KAFKA_VERSION, parts: Parts = "all", more: Sequence[Path] = ()
) -> list[str]:
    """Start of a command line for one of Kafka's own main classes, or a Java file that uses them; `heap` as in -Xmx.

    Logs go to stderr at INFO.

    `more` are further jars. They stand last, so that the class archive still fits what comes before.
    """
    return [
        java_command(),
        f"-Xmx{heap}",
        *_JIT_OPTIONS[jit],
        *(use_options(version) if jit == "quick" else ()),
        "-Djava.awt.headless=true",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        "-Dorg.slf4j.simpleLogger.showShortLogName=true",
        "-cp",
        os.pathsep.join([classpath_argument(version, parts), *map(str, more)]),
        main_class,
    ]
