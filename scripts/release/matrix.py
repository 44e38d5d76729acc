"""Tries the wheel of a release with each Python, PySpark and Java: a small mirror between two real brokers.

The brokers are those of the harness. The mirror is a process of an environment that has the release, its locked
requirements and no development tools.
"""

from __future__ import annotations

import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from harness.child import Child
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.errors import HarnessError
from harness.other_spark import REQUIREMENTS as OTHER_SPARK
from harness.pair import side_by_side
from harness.produce import numbered, produce
from harness.topics import create_topic
from harness.wait import wait_for
from scripts.release.checkout import ReleaseError
from scripts.release.environments import JAVAS, PYTHONS, Environment, Interpreter, Java, differing, install_release
from scripts.release.packages import pins

RECORDS = 2000
COMMAND_S = 900
DEVELOPMENT = ("pytest", "confluent_kafka", "mypy", "hypothesis")
"""Modules that an environment of a release must lack."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A combination; a name is a version, or a version and the reason why this machine has none."""

    python: str
    spark: str
    java: str


@dataclass(slots=True)
class Table:
    """The results of all combinations, and the sizes of the installed packages in bytes."""

    version: str
    rows: list[tuple[Cell, str]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return any(result.startswith("failed") for _, result in self.rows)

    def add_untested(self, reason: str) -> None:
        """Add a row for all combinations."""
        self.rows.append((Cell("all", "all", "all"), reason))

    def to_markdown(self) -> str:
        """The table as a page."""
        system = f"{platform.system()} {platform.machine()}"
        lines = [
            f"# Tests of the wheel of twinlog {self.version}",
            "",
            f"Each row is an environment without development tools on {system}. The row ran `twinlog --version`,",
            f"`check`, `plan`, and a mirror of {RECORDS:,} records between two real brokers, and compared each record.",
            "",
            "| Python | PySpark | Java | result |",
            "|---|---|---|---|",
            *(f"| {cell.python} | {cell.spark} | {cell.java} | {result} |" for cell, result in self.rows),
        ]
        if self.sizes:
            total = sum(self.sizes.values())
            lines += ["", f"Installed size: {total / 1e6:,.0f} MB.", "", "| package | MB |", "|---|--:|"]
            ordered = sorted(self.sizes.items(), key=lambda item: -item[1])
            lines += [f"| {name} | {size / 1e6:.1f} |" for name, size in ordered]
        return "\n".join([*lines, ""])


@dataclass(frozen=True, slots=True)
class Release:
    """A built release: the folder with its files, its version and its locked requirements."""

    folder: Path
    version: str

    @property
    def locked(self) -> dict[str, str]:
        """The version of each package that an environment of the release has."""
        names = ("requirements-build.txt", "requirements.txt")
        found = [pins((self.folder / name).read_text(encoding="utf-8")) for name in names]
        return {**found[0], **found[1], "twinlog": self.version}


class Matrix:
    """Runs all combinations of `pythons`, both PySparks and `javas`; `quick` only the first. `say` prints progress."""

    def __init__(
        self,
        release: Release,
        pythons: dict[str, Interpreter],
        javas: dict[int, Java],
        *,
        quick: bool,
        say: Callable[[str], None],
    ) -> None:
        self._release = release
        self._pythons = pythons
        self._javas = javas
        self._quick = quick
        self._say = say
        self._sparks = {release.locked["pyspark"]: None, pins(OTHER_SPARK.read_text())["pyspark"]: OTHER_SPARK}
        self._number = 0

    def run(self) -> Table:
        """Try everything. Raises HarnessError if the brokers do not start."""
        table = Table(self._release.version)
        with side_by_side(KafkaCluster("east"), KafkaCluster("west")) as (source, target):
            for python in PYTHONS:
                found = self._pythons.get(python)
                if found is None:
                    table.rows.append((Cell(python, "all", "all"), "not tested here: this machine lacks this Python"))
                elif not self._quick or found is next(iter(self._pythons.values())):
                    self._try_python(found, source, target, table)
                else:
                    table.rows.append((Cell(found.full, "all", "all"), "not tested: --quick"))
        return table

    def _try_python(self, python: Interpreter, source: KafkaCluster, target: KafkaCluster, table: Table) -> None:
        # A short path: Spark's sockets have names of at most 107 bytes.
        with tempfile.TemporaryDirectory(prefix="twr-", dir="/tmp") as work:
            self._say(f"Python {python.full}: installing the release into an empty environment ...")
            try:
                environment = Environment(Path(work, "env"), python.path)
                install_release(environment, self._release.folder, self._release.version)
                _check_packages(environment, self._release.locked)
                _check_tools(environment)
                if not table.sizes:
                    table.sizes = environment.sizes()
            except ReleaseError as error:
                self._add(table, Cell(python.full, "all", "all"), f"failed: {error}")
                return
            for spark, requirements in self._sparks.items():
                if self._quick and requirements is not None:
                    self._add(table, Cell(python.full, spark, "all"), "not tested: --quick")
                    continue
                try:
                    if requirements is not None:
                        environment.install(
                            "--require-hashes", "--no-build-isolation", "--no-deps", "-r", str(requirements)
                        )
                        environment.run([str(environment.home / "bin/python"), "-m", "pip", "check"])
                except ReleaseError as error:
                    self._add(table, Cell(python.full, spark, "all"), f"failed: {error}")
                    continue
                for cell, java in self._java_cells(python, spark):
                    self._add(table, cell, self._try_java(environment, java, source, target))

    def _java_cells(self, python: Interpreter, spark: str) -> Iterator[tuple[Cell, Java | str]]:
        first = next(iter(self._javas), None)
        for version in JAVAS:
            java = self._javas.get(version)
            if java is None:
                yield Cell(python.full, spark, str(version)), "not tested here: this machine lacks this Java"
            elif self._quick and version != first:
                yield Cell(python.full, spark, java.full), "not tested: --quick"
            else:
                yield Cell(python.full, spark, java.full), java

    def _try_java(self, environment: Environment, java: Java | str, source: KafkaCluster, target: KafkaCluster) -> str:
        if isinstance(java, str):
            return java
        self._number += 1
        began = time.monotonic()
        try:
            mirror(environment, java, self._release.version, source, target, f"cell-{self._number}")
        except (ReleaseError, HarnessError, TimeoutError) as error:
            return f"failed: {error}"
        return f"passed in {time.monotonic() - began:.0f} s"

    def _add(self, table: Table, cell: Cell, result: str) -> None:
        self._say(f"Python {cell.python}, PySpark {cell.spark}, Java {cell.java}: {result}")
        short = " ".join(result.partition("\n")[0].replace("|", "\\|").split())
        table.rows.append((cell, short))


def mirror(
    environment: Environment, java: Java, version: str, source: KafkaCluster, target: KafkaCluster, topic: str
) -> None:
    """Mirror a new topic by the release in `environment`, and compare each record with its copy.

    Raises ReleaseError if a command fails, if a record differs or is missing, or if Spark ran on another Java.
    """
    twinlog = str(environment.home / "bin/twinlog")
    printed = environment.run([twinlog, "--version"], java)
    if printed.strip() != f"twinlog {version}":
        raise ReleaseError(f"twinlog --version prints {printed.strip()!r} instead of twinlog {version}")
    create_topic(source, topic, 2)
    for partition, codec in enumerate(("zstd", "none")):
        records = numbered(RECORDS // 2, start=partition * RECORDS, size=200, keys=7, headers=True)
        produce(source, topic, records, partition=partition, codec="zstd" if codec == "zstd" else "none")
    file = environment.home.parent / f"{topic}.properties"
    # The bridge would copy these few records before Spark's first task.
    settings = {
        "clusters": "east, west",
        "east.bootstrap.servers": source.bootstrap,
        "west.bootstrap.servers": target.bootstrap,
        "east->west.enabled": "true",
        "east->west.topics": topic,
        "replication.factor": "1",
        "west.offset.storage.replication.factor": "1",
        **{f"{kind}.topic.replication.factor": "1" for kind in ("checkpoints", "heartbeats", "offset-syncs")},
        "twinlog.bridge": "false",
    }
    file.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    for command in ("check", "plan"):
        environment.run([twinlog, command, str(file)], java, deadline_s=COMMAND_S)
    words = [twinlog, "run", str(file), "--until", "caught-up", "--conf", "spark.ui.enabled=false"]
    log = environment.home.parent / f"{topic}.log"
    run = Child(
        "twinlog",
        ["env", "-i", *(f"{name}={value}" for name, value in environment.variables(java).items()), *words],
        log,
    )
    run.start()
    javas: set[Path] = set()
    wait_for(lambda: not _look(run, javas), COMMAND_S, "twinlog run has ended", every_s=0.2)
    code = run.wait(COMMAND_S)
    if code:
        raise ReleaseError(f"twinlog run ended with {code}; its log ends:\n{run.log_tail()}")
    if {path for path in javas if java.home not in path.parents} or not javas:
        raise ReleaseError(f"Spark ran on {', '.join(map(str, sorted(javas))) or 'no Java'} instead of {java.home}")
    wanted = [(record.partition, record.offset, record.content) for record in consume(source, topic)]
    copied = [(record.partition, record.offset, record.content) for record in consume(target, f"east.{topic}")]
    if len(wanted) != RECORDS or wanted != copied:
        raise ReleaseError(f"{len(copied)} records of {len(wanted)} are on the target, or records differ; see {log}")


def _look(run: Child, javas: set[Path]) -> bool:
    """Whether the run is alive; adds the programs of its Javas."""
    if not run.alive:
        return False
    try:
        for process in psutil.Process(run.pid).children(recursive=True):
            if process.name() == "java":
                javas.add(Path(process.exe()).resolve())
    except psutil.Error:
        pass
    return True


def _check_packages(environment: Environment, locked: dict[str, str]) -> None:
    wrong = list(differing(environment.packages(), locked))
    if wrong:
        raise ReleaseError(f"the environment differs from the lock: {'; '.join(wrong)}")
    environment.run([str(environment.home / "bin/python"), "-m", "pip", "check"])


def _check_tools(environment: Environment) -> None:
    code = f"import importlib.util as u; print([m for m in {DEVELOPMENT!r} if u.find_spec(m)])"
    found = environment.run([str(environment.home / "bin/python"), "-c", code]).strip()
    if found != "[]":
        raise ReleaseError(f"the environment has development tools: {found}")
