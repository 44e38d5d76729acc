"""Compiles a Java class of tests: a metrics reporter or a policy that a broker loads, or a program."""

from __future__ import annotations

import os
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from harness.errors import HarnessError
from harness.jvm.jars import KAFKA_VERSION, cache_dir, kafka_classpath, locked
from harness.jvm.java import BRIEF_TOOL, java_command


def plugin_jar(source: Path, jars: Sequence[Path] | None = None) -> Path:
    """The classes of `source` in a jar, compiled on first use. Raises HarnessError where there is no JDK to do it.

    `jars` are those that the class needs, by default Kafka's clients.
    """
    kept = cache_dir() / "kafka" / f"{source.stem}-{sha256(source.read_bytes()).hexdigest()[:12]}.jar"
    with locked(kept.with_suffix(".lock")):
        if kept.is_file():
            return kept
        javac = Path(java_command()).resolve().with_name("javac")
        if not javac.is_file():
            raise HarnessError(f"{source.name} needs a JDK: there is no {javac}. Install one or set JAVA_HOME.")
        if jars is None:
            jars = [jar for jar in kafka_classpath() if jar.name == f"kafka-clients-{KAFKA_VERSION}.jar"]
        path = os.pathsep.join(map(str, jars))
        with tempfile.TemporaryDirectory(prefix=".plugin-", dir=kept.parent) as work:
            command = [str(javac), *BRIEF_TOOL, "--release", "17", "-cp", path, "-d", work, str(source)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            if done.returncode != 0:
                raise HarnessError(f"{source} could not be compiled:\n{done.stderr}")
            fresh = Path(work, kept.name)
            with zipfile.ZipFile(fresh, "w") as jar:
                for compiled in Path(work).glob("*.class"):
                    jar.write(compiled, compiled.name)
            fresh.rename(kept)
    return kept
