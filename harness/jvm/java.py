"""Finds a Java that can run Kafka: 17 or newer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from harness.errors import HarnessError

OLDEST_JAVA = 17
BRIEF = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For programs that run for seconds: their best code would be ready after their end, at twice the processor time."""
BRIEF_TOOL = tuple(f"-J{option}" for option in BRIEF)
"""The same for the tools of a JDK."""
WAY_OUT = f"install a JDK or JRE of version {OLDEST_JAVA} or newer, or point JAVA_HOME at one"


@cache
def java_command() -> str:
    """Path of the `java` to start; JAVA_HOME wins over PATH. Raises HarnessError when there is none or one too old."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not found or not os.access(found, os.X_OK):
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on PATH"
        raise HarnessError(f"No Java found: {where}. Please {WAY_OUT}.")
    version = _major_version(found)
    if version < OLDEST_JAVA:
        raise HarnessError(f"{found} is Java {version}, too old for Kafka. Please {WAY_OUT}.")
    return found


def _major_version(java: str) -> int:
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    if match is None:
        raise HarnessError(f"{java} does not report its version. Please {WAY_OUT}.")
    return int(match.group(1))
