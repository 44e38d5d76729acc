"""The steps of `Containerfile` that need no container engine: what it copies, how it builds, what the PATH has then."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILD_S = 600
USAGE = 1


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction; `stage` counts from 0."""

    stage: int
    word: str
    rest: str


def steps(text: str) -> list[Step]:
    """The instructions of a container file."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    stage, found = -1, []
    for line in re.sub(r"\\\n\s*", " ", lines).splitlines():
        word, _, rest = line.strip().partition(" ")
        stage += word == "FROM"
        if word:
            found.append(Step(stage, word, rest))
    return found


STEPS = steps((ROOT / "Containerfile").read_text(encoding="utf-8"))


def only(word: str, stage: int = 1) -> str:
    (found,) = (step.rest for step in STEPS if (step.word, step.stage) == (word, stage))
    return found


def python_without_twinlog(home: Path) -> None:
    """A virtual environment that has what the requirements name, as this one has it, and not this package."""
    venv.create(home, with_pip=False, symlinks=True)
    here = Path(sysconfig.get_path("purelib"))
    links = home / "requirements"
    links.mkdir()
    for path in here.iterdir():
        if "twinlog" not in path.name:
            (links / path.name).symlink_to(path)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    (own / "requirements.pth").write_text(f"{links}\n")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The disk of the image after its first stage. The requirements are not installed anew, see the last test."""
    disk = tmp_path_factory.mktemp("image")
    work = disk / only("WORKDIR", 0).lstrip("/")
    work.mkdir()
    python_without_twinlog(disk / "opt/twinlog")
    for step in STEPS:
        if step.stage != 0:
            break
        if step.word == "COPY":
            *sources, target = step.rest.split()
            for source in sources:
                copy(ROOT / source, work / target / ("" if (ROOT / source).is_dir() else Path(source).name))
        elif step.word == "RUN" and "requirements/" not in step.rest:
            command = step.rest.replace("/opt/twinlog", f"{disk}/opt/twinlog")
            done = subprocess.run(
                ["/bin/sh", "-c", command], cwd=work, capture_output=True, text=True, check=False, timeout=BUILD_S
            )
            assert done.returncode == 0, done.stdout + done.stderr
    return disk


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"), dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def test_what_is_copied_is_sent_to_the_engine() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source
        for step in STEPS
        if step.word == "COPY" and "--from" not in step.rest
        for source in step.rest.split()[:-1]
    }
    assert copied == sent
    assert all((ROOT / source).exists() for source in copied)


def test_signals_arrive_and_nobody_is_root() -> None:
    assert json.loads(only("ENTRYPOINT"))[0] == "tini"
    assert json.loads(only("CMD"))[0] == "connect-distributed.sh"
    assert json.loads(only("HEALTHCHECK").partition("CMD ")[2])
    assert only("STOPSIGNAL") == "SIGTERM"
    assert int(only("USER")) > 0
    words = [step.word for step in STEPS]
    assert "warm-up" in next(step.rest for step in STEPS[words.index("USER") :] if step.word == "RUN")


def test_both_stages_have_the_same_pinned_base() -> None:
    bases = {step.rest.split()[0] for step in STEPS if step.word == "FROM"}
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", bases.pop())


def test_the_commands_are_on_the_path(image: Path) -> None:
    folder = image / "opt/twinlog/bin"
    run = [subprocess.run([folder / "twinlog", "--help"], capture_output=True, text=True, check=True)]
    assert "warm-up" in run[0].stdout
    linked = re.search(r"for name in ([\w -]+);", next(step.rest for step in STEPS if "ln -s" in step.rest))
    assert linked is not None
    for name in linked[1].split():
        for command in (f"connect-{name}", f"connect-{name}.sh"):
            done = subprocess.run([folder / command], capture_output=True, text=True, check=False)
            assert done.returncode == USAGE, done.stderr
            assert done.stderr.startswith(f"USAGE: connect-{name}")
    assert 'PATH="/opt/twinlog/bin:' in only("ENV")


def test_requirements_are_those_that_everything_here_was_tested_with() -> None:
    """And they are installed with their hashes."""
    text = next(step.rest for step in STEPS if "requirements/runtime.txt" in step.rest and step.word == "RUN")
    assert text.count("--require-hashes") == text.count("-r requirements/") == 2
    pinned = re.findall(
        r"^([\w.-]+)==(\S+) \\$", (ROOT / "requirements/runtime.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(pinned) > 20
    assert {name: importlib.metadata.version(name) for name, _ in pinned} == dict(pinned)
    assert sys.version_info >= (3, 11)


def test_spark_finds_the_start_of_its_executors() -> None:
    (started,) = (step.rest.split() for step in STEPS if step.word == "COPY" and "executor" in step.rest)
    source = ROOT / started[0]
    assert started[1] == "/opt/twinlog/bin/executor"
    assert os.access(source, os.X_OK)
    done = subprocess.run([sys.executable, source], env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "SPARK_DRIVER_URL" in done.stderr
