"""Environments that have a release and nothing of its development: the Pythons and Javas to make them of."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet

from scripts.release.checkout import ReleaseError

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
JAVAS = (17, 21, 25)
"""The releases of Python and the long-term releases of Java that a release is tested with, if the machine has them."""
INSTALL_S = 1800
_NOT_TAKEN = (
    "PYTHON",
    "PIP_FIND_LINKS",
    "PIP_REQUIRE",
    "PIP_CONSTRAINT",
    "SPARK_",
    "PYSPARK_",
    "VIRTUAL_ENV",
    "TWINLOG_",
)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python: `version` is major and minor, `full` has all three numbers."""

    version: str
    full: str
    path: Path


@dataclass(frozen=True, slots=True)
class Java:
    """A Java: `version` is the major version, `full` is the version as Java prints it."""

    version: int
    full: str
    home: Path


def find_pythons(allowed: str, named: Iterable[Path] = ()) -> dict[str, Interpreter]:
    """The newest Python of each version in `PYTHONS` that `allowed` allows, by version.

    Looked for are the Pythons in `named`, on the PATH, and in the folders of pyenv and uv.
    """
    wanted = [version for version in PYTHONS if SpecifierSet(allowed).contains(version)]
    home = Path.home()
    places = [*named, Path(sys.executable)]
    for version in wanted:
        places += [Path(found) for found in [shutil.which(f"python{version}")] if found]
        places += home.glob(f".pyenv/versions/{version}.*/bin/python")
        places += home.glob(f".local/share/uv/python/cpython-{version}.*/bin/python{version}")
    code = "import sys, venv, ensurepip as e; v = sys.version_info; print(*v[:3], getattr(sys, '_base_executable'))"
    found: dict[str, Interpreter] = {}
    for place in places:
        words = _first_line([str(place), "-c", code]).split(" ", 3)
        version = ".".join(words[:2])
        if len(words) == 4 and version in wanted:
            found.setdefault(version, Interpreter(version, ".".join(words[:3]), Path(words[3])))
    return dict(sorted(found.items(), key=lambda item: wanted.index(item[0])))


def find_javas(named: Iterable[Path] = ()) -> dict[int, Java]:
    """The first Java of each version in `JAVAS`, by version.

    Looked for are the homes in `named`, JAVA_HOME, the Java on the PATH, and the usual folders of Linux and macOS.
    """
    command = shutil.which("java")
    homes = [
        *named,
        *([Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []),
        *([Path(command).resolve().parents[1]] if command else []),
        *sorted(Path("/usr/lib/jvm").glob("*")),
        *sorted(Path("/Library/Java/JavaVirtualMachines").glob("*/Contents/Home")),
        *sorted(Path.home().glob(".sdkman/candidates/java/*")),
    ]
    found: dict[int, Java] = {}
    for home in homes:
        match = re.search(r'version "(\d+)([^"]*)"', _first_line([str(home / "bin/java"), "-version"]))
        if match is not None and int(match[1]) in JAVAS:
            found.setdefault(int(match[1]), Java(int(match[1]), match[1] + match[2], home.resolve()))
    return dict(sorted(found.items()))


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd="/")
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout or done.stderr).partition("\n")[0] if done.returncode == 0 else ""


class Environment:
    """A virtual environment that only its own packages are in, and the variables that its programs get.

    No variable of Python, pip's sources, Spark or twinlog reaches its programs from here.
    """

    def __init__(self, home: Path, python: Path) -> None:
        self.home = home
        self._variables = {
            name: value for name, value in os.environ.items() if not name.startswith(_NOT_TAKEN) and name != "JAVA_HOME"
        }
        self._variables |= {"PATH": f"{home}/bin:/usr/bin:/bin", "TWINLOG_CACHE": str(home / "cache")}
        self.run([str(python), "-m", "venv", str(home)])

    def variables(self, java: Java | None = None) -> dict[str, str]:
        """The variables of a program that uses `java`."""
        return self._variables | ({"JAVA_HOME": str(java.home)} if java is not None else {})

    def run(self, command: list[str], java: Java | None = None, *, deadline_s: float = INSTALL_S) -> str:
        """Run a command outside of the checkout, and return its output. Raises ReleaseError if it fails."""
        try:
            done = subprocess.run(
                command,
                env=self.variables(java),
                cwd=self.home.parent,
                capture_output=True,
                text=True,
                check=False,
                timeout=deadline_s,
            )
        except subprocess.TimeoutExpired:
            raise ReleaseError(f"`{' '.join(command)}` did not end within {deadline_s:g} s") from None
        if done.returncode:
            raise ReleaseError(
                f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
            )
        return done.stdout

    def install(self, *arguments: str) -> None:
        """Run `pip install` with the index that this machine uses. Raises ReleaseError."""
        self.run(
            [
                str(self.home / "bin/python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                *arguments,
            ]
        )

    def packages(self) -> dict[str, str]:
        """The installed packages and their versions."""
        code = "from importlib.metadata import distributions as d; [print(x.name, x.version) for x in d()]"
        lines = self.run([str(self.home / "bin/python"), "-c", code]).splitlines()
        return {name.lower().replace("_", "-").replace(".", "-"): version for name, version in map(str.split, lines)}

    def sizes(self) -> dict[str, int]:
        """The bytes of each installed package on disk, compiled modules included."""
        code = (
            "from importlib.metadata import distributions as d\n"
            "for x in d(): print(x.name, sum(f.locate().stat().st_size for f in x.files or () if f.locate().is_file()))"
        )
        return {
            name: int(size)
            for name, size in map(str.split, self.run([str(self.home / "bin/python"), "-c", code]).splitlines())
        }


def install_release(environment: Environment, release: Path, version: str) -> None:
    """Install a built release as an operator would: the locked requirements, then the wheel from the built index.

    Raises ReleaseError if pip fails, or if the environment has another package or version than the lock.
    """
    index = (release / "simple").resolve().as_uri()
    environment.install("--require-hashes", "-r", str(release / "requirements-build.txt"))
    environment.install("--require-hashes", "--no-build-isolation", "-r", str(release / "requirements.txt"))
    environment.install("--no-deps", "--index-url", index, f"twinlog=={version}")


def differing(installed: Mapping[str, str], locked: Mapping[str, str]) -> Iterator[str]:
    """A line for each installed package that the lock lacks or has in another version; pip itself is left out."""
    for name, version in sorted(installed.items()):
        if name != "pip" and locked.get(name) != version:
            yield f"{name} {version} is installed, and the lock has {locked.get(name, 'no version')}"
