"""Gets Kafka's own jars (broker, MirrorMaker 2, Connect, tools) once and keeps them.

They are resolved by the Ivy that pyspark ships, from Ivy's default public repository or from the one named in the
settings file that `TWINLOG_IVY_SETTINGS` points to. They land in `.cache/kafka/<version>` of this checkout, or below
`TWINLOG_CACHE`, once their hashes are those of `jars.sha256`.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from harness.errors import HarnessError
from harness.java import java_command
from harness.pins import check_pins

KAFKA_VERSION = "4.3.0"
OLDER_VERSION = "3.9.1"
"""The last line of releases before 4.0, whose MirrorMaker 2 many still run."""
RESOLVE_DEADLINE_S = 900

Parts = Literal["all", "mirror", "connect"]
"""`mirror` is MirrorMaker 2 alone, without broker and tools: enough for a version that only has to mirror. `connect` is
a Connect worker with the plugins that Kafka's own distribution puts on its class path."""

_MIRROR = ("connect-mirror", "connect-runtime")
_ARTIFACTS: dict[Parts, tuple[str, ...]] = {
    "all": ("kafka_2.13", *_MIRROR, "kafka-tools"),
    "mirror": _MIRROR,
    "connect": (*_MIRROR, "connect-transforms", "connect-basic-auth-extension"),
}
_MEGABYTES: dict[Parts, int] = {"all": 55, "mirror": 30, "connect": 30}
# Kafka's jars bring no log backend; this one writes to stderr and needs no file of its own.
_SIMPLE_LOG = ("org.slf4j", "slf4j-simple", "1.7.36")
# A worker's `/admin/loggers` reads and sets levels of the backend of Kafka's distribution: log4j 2 since 4.0.
_LOG4J_1 = ("org.slf4j", "slf4j-reload4j", "1.7.36")
_LOG4J_2 = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")


def cache_dir() -> Path:
    """Where jars and prepared state live between runs."""
    override = os.environ.get("TWINLOG_CACHE")
    return Path(override) if override else Path(__file__).resolve().parent.parent / ".cache"


def kafka_classpath(version: str = KAFKA_VERSION, parts: Parts = "all") -> list[Path]:
    """Jars of one Kafka version, sorted by name; fetches them when this checkout has none yet (about a minute, 55 MB).

    Safe to call from several processes at once: one fetches, the others wait. Raises HarnessError.
    """
    name = version if parts == "all" else f"{version}-{parts}"
    home = cache_dir() / "kafka" / name
    if not home.is_dir():
        with locked(home.with_name(f"{name}.lock")):
            if not home.is_dir():
                _fetch(version, parts, home)
    return sorted(home.glob("*.jar"))


def classpath_argument(version: str = KAFKA_VERSION, parts: Parts = "all") -> str:
    """The same jars in the form `java -cp` takes; our own log backend first, because Kafka 3 brings another."""
    home = kafka_classpath(version, parts)[0].parent
    return os.pathsep.join([*(str(jar) for jar in home.glob("slf4j-simple-*.jar")), str(home / "*")])


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between processes; the lock file stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch(version: str, parts: Parts, home: Path) -> None:
    java = java_command()
    ivy = _ivy_jar()
    size = f"once, about {_MEGABYTES[parts]} MB"
    print(f"Fetching the jars of Kafka {version} into {home} ({size}) ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix=f".{version}-", dir=home.parent) as work:
        module = Path(work, "ivy.xml")
        module.write_text(_ivy_module(version, parts), encoding="utf-8")
        jars = Path(work, "jars")
        command = [java, "-jar", str(ivy), "-cache", str(cache_dir() / "ivy"), "-ivy", str(module)]
        settings = os.environ.get("TWINLOG_IVY_SETTINGS")
        if settings:
            command += ["-settings", settings]
        # `-confs` and the `default->default` mapping are what makes Ivy retrieve the jars and not only resolve them.
        command += ["-confs", "default", "-types", "jar", "bundle"]
        command += ["-retrieve", f"{jars}/[artifact]-[revision](-[classifier]).[ext]"]
        log = home.with_name(f"{home.name}.log")
        with log.open("w", encoding="utf-8") as output:
            try:
                status = subprocess.run(
                    command, stdout=output, stderr=subprocess.STDOUT, check=False, timeout=RESOLVE_DEADLINE_S
                ).returncode
            except subprocess.TimeoutExpired:
                status = -1
        if status != 0 or not any(jars.glob(f"{_ARTIFACTS[parts][0]}-{version}.jar")):
            raise HarnessError(
                f"Kafka {version}'s jars could not be fetched: the Maven repository is not reachable or lacks them "
                f"(details in {log}). Connect to the network and try again, name a mirror with "
                f"TWINLOG_IVY_SETTINGS=<ivysettings.xml>, or put the jars into {home}."
            )
        check_pins(version, jars.glob("*.jar"))
        jars.rename(home)


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not found:
        raise HarnessError("pyspark, whose Ivy fetches Kafka's jars, is not installed here. Run `make .venv` first.")
    return found[-1]


def _ivy_module(version: str, parts: Parts) -> str:
    backend = _SIMPLE_LOG
    if parts == "connect":
        backend = _LOG4J_1 if version.startswith("3.") else _LOG4J_2
    wanted = [*(("org.apache.kafka", name, version) for name in _ARTIFACTS[parts]), backend]
    dependencies = "\n".join(f'    <dependency org="{org}" name="{name}" rev="{rev}"/>' for org, name, rev in wanted)
    return f"""<ivy-module version="2.0">
  <info organisation="twinlog" module="kafka-for-tests"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->default">
{dependencies}
  </dependencies>
</ivy-module>
"""
