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
from harness.cluster import KafkaCluster, side_by_side
from harness.consume import consume
from harness.errors import HarnessError
from harness.produce import numbered, produce
from harness.spark.other_release import REQUIREMENTS as OTHER_SPARK
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

    @property
    def tried(self) -> bool:
        """Whether the wheel passed in any row."""
        return any(result.startswith("passed") for _, result in self.rows)

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


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The environment of a Python and a PySpark; if it lacks one, `reason` is the result of its row."""

    python: str
    spark: str
    environment: Environment | None
    reason: str = ""


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

    def run(self) -> Table:
        """Install all environments, then try each of them. Raises HarnessError if the brokers do not start."""
        table = Table(self._release.version)
        # A short path: Spark's sockets have names of at most 107 bytes.
        with tempfile.TemporaryDirectory(prefix="twr-", dir="/tmp") as work:
            prepared = [each for python in PYTHONS for each in self._prepare(python, Path(work))]
            first = next((each.environment for each in prepared if each.environment is not None), None)
            if first is None:
                table.rows += [(Cell(each.python, each.spark, "all"), each.reason) for each in prepared]
                return table
            table.sizes = first.sizes()
            with side_by_side(KafkaCluster("east"), KafkaCluster("west")) as (source, target):
                for number, each in enumerate(prepared):
                    for cell, result in self._try_environment(each, f"env-{number}", source, target):
                        self._say(f"Python {cell.python}, PySpark {cell.spark}, Java {cell.java}: {result}")
                        table.rows.append((cell, " ".join(result.partition("\n")[0].replace("|", "\\|").split())))
        return table

    def _prepare(self, version: str, work: Path) -> Iterator[_Prepared]:
        python = self._pythons.get(version)
        if python is None:
            yield _Prepared(version, "all", None, "not tested here: this machine lacks this Python")
        elif self._quick and python is not next(iter(self._pythons.values())):
            yield _Prepared(python.full, "all", None, "not tested: --quick")
        else:
            for spark, requirements in self._sparks.items():
                if self._quick and requirements is not None:
                    yield _Prepared(python.full, spark, None, "not tested: --quick")
                    continue
                self._say(
                    f"Python {python.full}, PySpark {spark}: installing the release into an empty environment ..."
                )
                try:
                    home = work / f"{version}-{spark}"
                    yield _Prepared(python.full, spark, self._install(home, python, spark, requirements))
                except ReleaseError as error:
                    yield _Prepared(python.full, spark, None, f"failed: {error}")

    def _install(self, home: Path, python: Interpreter, spark: str, requirements: Path | None) -> Environment:
        environment = Environment(home, python.path)
        install_release(environment, self._release.folder, self._release.version)
        if requirements is not None:
            environment.install("--require-hashes", "--no-build-isolation", "--no-deps", "-r", str(requirements))
        _check_packages(environment, {**self._release.locked, "pyspark": spark})
        return environment

    def _try_environment(
        self, prepared: _Prepared, name: str, source: KafkaCluster, target: KafkaCluster
    ) -> Iterator[tuple[Cell, str]]:
        if prepared.environment is None:
            yield Cell(prepared.python, prepared.spark, "all"), prepared.reason
            return
        for version in JAVAS:
            java = self._javas.get(version)
            cell = Cell(prepared.python, prepared.spark, str(version) if java is None else java.full)
            if java is None:
                yield cell, "not tested here: this machine lacks this Java"
            elif self._quick and java is not next(iter(self._javas.values())):
                yield cell, "not tested: --quick"
            else:
                yield cell, self._try_java(prepared.environment, java, f"{name}-{version}", source, target)

    def _try_java(
        self, environment: Environment, java: Java, topic: str, source: KafkaCluster, target: KafkaCluster
    ) -> str:
        began = time.monotonic()
        try:
            mirror(environment, java, self._release.version, source, target, topic)
        except (ReleaseError, HarnessError, TimeoutError) as error:
            return f"failed: {error}"
        return f"passed in {time.monotonic() - began:.0f} s"


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
    try:
        wait_for(lambda: not _look(run, javas), COMMAND_S, "twinlog run has ended", every_s=0.2)
        code = run.wait(COMMAND_S)
    finally:
        run.kill()
    if code:
        raise ReleaseError(f"twinlog run ended with {code}; its log ends:\n{run.log_tail()}")
    if {path for path in javas if java.home not in path.parents} or not javas:
        raise ReleaseError(f"Spark ran on {', '.join(map(str, sorted(javas))) or 'no Java'} instead of {java.home}")
    wanted = [(record.partition, record.offset, record.content) for record in consume(source, topic)]
    copied = [(record.partition, record.offset, record.content) for record in consume(target, f"east.{topic}")]
    if len(wanted) != RECORDS or wanted != copied:
        counts = f"{len(copied)} records of {len(wanted)} are on the target"
        differ = sum(one != other for one, other in zip(wanted, copied, strict=False))
        raise ReleaseError(f"{counts}, {differ} of them differ; the log of twinlog run ends:\n{run.log_tail()}")


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
    """Check that an environment has exactly the locked packages. Raises ReleaseError."""
    wrong = list(differing(environment.packages(), locked))
    if wrong:
        raise ReleaseError(f"the environment differs from the lock: {'; '.join(wrong)}")
    python = str(environment.home / "bin/python")
    environment.run([python, "-m", "pip", "check"])
    code = f"import importlib.util as u; print([m for m in {DEVELOPMENT!r} if u.find_spec(m)])"
    found = environment.run([python, "-c", code]).strip()
    if found != "[]":
        raise ReleaseError(f"the environment has development tools: {found}")
