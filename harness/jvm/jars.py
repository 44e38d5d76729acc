"""Gets Kafka's own jars (broker, MirrorMaker 2, Connect, tools), Spark's Kafka source and Flink once and keeps them.

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
from harness.jvm.java import BRIEF, java_command
from harness.jvm.pins import check_pins

KAFKA_VERSION = "4.3.0"
OLDER_VERSION = "3.9.1"
"""The last line of releases before 4.0, whose MirrorMaker 2 many still run."""
RESOLVE_DEADLINE_S = 900

SPARK_VERSION = "4.2.0"
"""The release of Spark whose own Kafka source is measured beside twinlog's: that of the pinned pyspark."""

FLINK_VERSION = "2.2.1"
"""The release of Flink whose jobs move between clusters in tests."""

Parts = Literal["all", "mirror", "broker", "connect", "zookeeper"]
"""`mirror` is MirrorMaker 2 alone, without broker and tools: enough for a version that only has to mirror.
`broker` is a broker with KRaft, for releases from 3.3 on; before 4.0 MirrorMaker 1 is among its classes. `connect` is a
Connect worker with the plugins that Kafka's own distribution puts on its class path. `zookeeper` is a broker of a
release before 3.0, with a ZooKeeper."""

_MIRROR = ("connect-mirror", "connect-runtime")
_ARTIFACTS: dict[Parts, tuple[str, ...]] = {
    "all": ("kafka_2.13", *_MIRROR, "kafka-tools"),
    "mirror": _MIRROR,
    "broker": ("kafka_2.13",),
    "connect": (*_MIRROR, "connect-transforms", "connect-basic-auth-extension"),
    "zookeeper": ("kafka_2.12",),
}
_MEGABYTES: dict[Parts, int] = {"all": 55, "mirror": 30, "broker": 40, "connect": 30, "zookeeper": 30}
# That of Kafka 2.1 itself cannot read addresses with Java 14 and newer (ZOOKEEPER-3779).
_ZOOKEEPER = ("org.apache.zookeeper", "zookeeper", "3.5.9")
# Kafka's jars bring no log backend; this one writes to stderr and needs no file of its own.
_SIMPLE_LOG = ("org.slf4j", "slf4j-simple", "1.7.36")
# A worker's `/admin/loggers` reads and sets levels of the backend of Kafka's distribution: log4j 2 since 4.0.
_LOG4J_1 = ("org.slf4j", "slf4j-reload4j", "1.7.36")
_LOG4J_2 = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")


# What Spark's Kafka source needs beside the jars that pyspark brings.
_SPARK_SOURCE = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", SPARK_VERSION),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.12.1"),
)

# A job in a MiniCluster, from Kafka to files. Flink's modules name their connectors as provided.
_FLINK = (
    ("org.apache.flink", "flink-clients", FLINK_VERSION),
    ("org.apache.flink", "flink-streaming-java", FLINK_VERSION),
    ("org.apache.flink", "flink-connector-base", FLINK_VERSION),
    ("org.apache.flink", "flink-connector-files", FLINK_VERSION),
    ("org.apache.flink", "flink-connector-kafka", "5.0.0-2.2"),
    _SIMPLE_LOG,
)


def cache_dir() -> Path:
    """Where jars and prepared state live between runs."""
    override = os.environ.get("TWINLOG_CACHE")
    return Path(override) if override else Path(__file__).resolve().parents[2] / ".cache"


def kafka_classpath(version: str = KAFKA_VERSION, parts: Parts = "all") -> list[Path]:
    """Jars of one Kafka version, sorted by name; fetches them when this checkout has none yet (about a minute, 55 MB).

    Safe to call from several processes at once: one fetches, the others wait. Raises HarnessError.
    """
    name = version if parts == "all" else f"{version}-{parts}"
    module = _ivy_module(_wanted(version, parts))
    return _fetched(name, f"Kafka {version}", version, module, _ARTIFACTS[parts][0], _MEGABYTES[parts])


def spark_source_jars() -> list[Path]:
    """Jars of Spark's own Kafka source, fetched once (10 MB). Raises HarnessError."""
    module = _ivy_module(_SPARK_SOURCE, transitive=False)
    what = f"Spark's Kafka source {SPARK_VERSION}"
    return _fetched(f"spark-{SPARK_VERSION}", what, SPARK_VERSION, module, _SPARK_SOURCE[0][1], 10)


def flink_jars() -> list[Path]:
    """Jars of Flink and its Kafka connector, fetched once (85 MB). Raises HarnessError."""
    module = _ivy_module(_FLINK)
    return _fetched(f"flink-{FLINK_VERSION}", f"Flink {FLINK_VERSION}", FLINK_VERSION, module, _FLINK[0][1], 85)


def _fetched(name: str, what: str, version: str, module: str, first: str, megabytes: int) -> list[Path]:
    """The jars of a folder of the cache, sorted by name; a process that finds no folder fetches them."""
    home = cache_dir() / "kafka" / name
    if not home.is_dir():
        with locked(home.with_name(f"{name}.lock")):
            if not home.is_dir():
                _fetch(what, version, module, home, first, megabytes)
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


def _fetch(what: str, version: str, text: str, home: Path, first: str, megabytes: int) -> None:
    java = java_command()
    ivy = _ivy_jar()
    size = f"once, about {megabytes} MB"
    print(f"Fetching the jars of {what} into {home} ({size}) ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix=f".{version}-", dir=home.parent) as work:
        module = Path(work, "ivy.xml")
        module.write_text(text, encoding="utf-8")
        jars = Path(work, "jars")
        command = [java, *BRIEF, "-jar", str(ivy), "-cache", str(cache_dir() / "ivy"), "-ivy", str(module)]
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
        if status != 0 or not any(jars.glob(f"{first}-{version}.jar")):
            raise HarnessError(
                f"The jars of {what} could not be fetched: the Maven repository is not reachable or lacks them "
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


def _wanted(version: str, parts: Parts) -> tuple[tuple[str, str, str], ...]:
    backend = _SIMPLE_LOG
    if parts == "connect":
        backend = _LOG4J_1 if version.startswith("3.") else _LOG4J_2
    more = (_ZOOKEEPER,) if parts == "zookeeper" else ()
    return (*(("org.apache.kafka", name, version) for name in _ARTIFACTS[parts]), *more, backend)


def _ivy_module(wanted: tuple[tuple[str, str, str], ...], *, transitive: bool = True) -> str:
    alone = "" if transitive else ' transitive="false"'
    dependencies = "\n".join(
        f'    <dependency org="{org}" name="{name}" rev="{rev}"{alone}/>' for org, name, rev in wanted
    )
    return f"""<ivy-module version="2.0">
  <info organisation="twinlog" module="kafka-for-tests"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->default">
{dependencies}
  </dependencies>
</ivy-module>
"""
