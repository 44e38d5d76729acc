"""A printed seed repeats every test."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.seeds import chance_of

ROOT = Path(__file__).parents[2]

DRAWING = """
import random
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import integers

def test_first(chance): print("first", chance.random())

def test_chance(chance): print("drawn", chance.random(), random.random()); assert not chance

@settings(max_examples=3)
@given(integers())
def test_hypothesis(number): print("drawn", number)

def test_name(new_name): print("drawn", new_name("t"), new_name("t"))
"""

SYSTEMS_OWN = re.compile(r"SystemRandom|urandom|uuid[14]\(|import secrets|secrets\.token|random\.seed\(\)|Random\(\)")
ALLOWED = {
    "scripts/draws.py": "makes the seeds that it prints",
    "scripts/image_strimzi.py": "makes the password of a pod's stores",
    "faults/__main__.py": "makes the seed that it prints",
    "faults/connect.py": "the same",
    "soak/__main__.py": "the same",
    "harness/ports.py": "whether a port is free is nobody's choice",
    "harness/containers/compose.py": "the same, of the loopback's addresses",
    "harness/broker.py": "no two brokers may have one id, whoever starts them",
    "tests/unit/test_seeds.py": "this file",
}


def draw(file: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pytest", "-s", "-v", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(file.parent), *options, str(file)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)


def drawn(drawing: subprocess.Popen[str]) -> tuple[list[str], str]:
    """What the tests of a file drew, in the order of their names; and all that pytest printed."""
    output, _ = drawing.communicate()
    return sorted(re.findall(r"drawn .*", output)), output


def test_a_seed_draws_the_same_whatever_else_runs(tmp_path: Path) -> None:
    file = tmp_path / "test_drawing.py"
    file.write_text(DRAWING)
    all_of_them = draw(file, "--randomly-seed=7")
    without_one = draw(file, "--randomly-seed=7", "--deselect", f"{file.name}::test_first")
    numbers, output = drawn(all_of_them)
    same, _ = drawn(without_one)
    assert len(numbers) == 5, output
    assert "--randomly-seed=7 draws the same again" in output
    assert same == numbers


def test_another_seed_or_test_draws_something_else() -> None:
    def first(seed: int, test: str) -> float:
        node: Any = SimpleNamespace(config=SimpleNamespace(getoption=lambda *_: seed), nodeid=test)
        return chance_of(node).random()

    assert len({first(7, "a"), first(7, "b"), first(8, "a")}) == 3
    assert first(7, "a") == first(7, "a")


def test_nothing_draws_from_the_systems_randomness() -> None:
    found = {
        str(path.relative_to(ROOT))
        for folder in ("tests", "harness", "faults", "soak", "demo", "scripts")
        for path in (ROOT / folder).rglob("*.py")
        if SYSTEMS_OWN.search(path.read_text(encoding="utf-8"))
    }
    assert found == ALLOWED.keys()
