"""Compiles a Java class that a broker loads, such as a metrics reporter or a policy."""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from hashlib import sha256
from pathlib import Path

from harness.errors import HarnessError
from harness.jars import KAFKA_VERSION, cache_dir, kafka_classpath, locked
from harness.java import java_command


def plugin_jar(source: Path) -> Path:
    """The class of `source` in a jar, compiled on first use. Raises HarnessError where there is no JDK to do it."""
    kept = cache_dir() / "kafka" / f"{source.stem}-{sha256(source.read_bytes()).hexdigest()[:12]}.jar"
    with locked(kept.with_suffix(".lock")):
        if kept.is_file():
            return kept
        javac = Path(java_command()).resolve().with_name("javac")
        if not javac.is_file():
            raise HarnessError(f"{source.name} needs a JDK: there is no {javac}. Install one or set JAVA_HOME.")
        clients = next(jar for jar in kafka_classpath() if jar.name == f"kafka-clients-{KAFKA_VERSION}.jar")
        with tempfile.TemporaryDirectory(prefix=".plugin-", dir=kept.parent) as work:
            command = [str(javac), "--release", "17", "-cp", str(clients), "-d", work, str(source)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            if done.returncode != 0:
                raise HarnessError(f"{source} could not be compiled:\n{done.stderr}")
            fresh = Path(work, kept.name)
            with zipfile.ZipFile(fresh, "w") as jar:
                for compiled in Path(work).glob("*.class"):
                    jar.write(compiled, compiled.name)
            fresh.rename(kept)
    return kept
