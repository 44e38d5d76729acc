"""The table of tried combinations is honest, and an environment of a release takes nothing from the one around it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from harness.spark.other_release import REQUIREMENTS as OTHER_SPARK
from scripts.release.checkout import ReleaseError
from scripts.release.environments import PYTHONS, Environment, Interpreter, Java, differing, find_javas, find_pythons
from scripts.release.matrix import Cell, Matrix, Release, Table
from scripts.release.packages import pins


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_this_python_is_found_as_the_one_below_its_environment() -> None:
    found = find_pythons(">=3.11")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert found[version].full.startswith(f"{version}.")
    assert ".venv" not in str(found[version].path)


def test_a_python_that_the_package_refuses_is_left_out(tmp_path: Path) -> None:
    named = program(tmp_path / "python", "echo 3 12 9 /opt/python")
    assert find_pythons(">=3.12", [named])["3.12"].full == "3.12.9"
    assert "3.11" not in find_pythons(">=3.12")
    assert find_pythons(">=3.12", [program(tmp_path / "broken", "exit 1")]).keys() >= set()


def test_javas_are_found_by_what_they_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    homes = {}
    for version in ("21.0.8", "1.8.0_402", "22.0.1"):
        homes[version] = tmp_path / version
        program(tmp_path / version / "bin/java", f"echo 'openjdk version \"{version}\" 2026-01-01' >&2")
    found = find_javas(homes.values())
    assert (found[21].full, found[21].home) == ("21.0.8", homes["21.0.8"])
    assert 8 not in found
    assert 22 not in found


def test_a_failure_and_a_missing_java_are_no_success() -> None:
    table = Table("1.2.0")
    table.rows.append((Cell("3.11.7", "4.2.0", "17.0.1"), "passed in 20 s"))
    assert table.tried
    assert not table.failed
    table.rows.append((Cell("3.11.7", "4.2.0", "21"), "not tested here: this machine lacks this Java"))
    assert not table.failed
    table.rows.append((Cell("3.12.1", "all", "all"), "failed: pip"))
    assert table.failed
    text = table.to_markdown()
    assert "| 3.11.7 | 4.2.0 | 17.0.1 | passed in 20 s |" in text
    assert "| 3.11.7 | 4.2.0 | 21 | not tested here: this machine lacks this Java |" in text
    assert text.count("passed") == 1


def test_a_machine_without_any_of_them_tries_nothing(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("pyspark==4.2.0\n")
    (tmp_path / "requirements-build.txt").write_text("")
    table = Matrix(Release(tmp_path, "1.2.0"), {}, {}, quick=False, say=print).run()
    assert {result for _, result in table.rows} == {"not tested here: this machine lacks this Python"}
    assert len(table.rows) == len(PYTHONS)
    assert not table.tried


@pytest.mark.scenario
def test_a_release_that_pip_refuses_is_a_failure_of_both_pysparks(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("pyspark==4.2.0\n")
    (tmp_path / "requirements-build.txt").write_text("no-hash==1\n")
    here = Interpreter(PYTHONS[0], "3.11.0", Path(os.path.realpath(sys.executable)))
    table = Matrix(Release(tmp_path, "1.2.0"), {PYTHONS[0]: here}, {}, quick=False, say=print).run()
    failed = [(cell, result) for cell, result in table.rows if cell.python == "3.11.0"]
    assert [cell.spark for cell, _ in failed] == ["4.2.0", pins(OTHER_SPARK.read_text())["pyspark"]]
    assert all(result.startswith("failed: `") for _, result in failed)
    assert table.failed


def test_sizes_are_listed_from_the_largest_on() -> None:
    table = Table("1.2.0", sizes={"small": 100_000, "large": 504_000_000})
    assert table.to_markdown().endswith("| large | 504.0 |\n| small | 0.1 |\n")
    assert "Installed size: 504 MB." in table.to_markdown()


@pytest.mark.scenario
def test_an_environment_takes_no_variables_and_no_packages_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "TWINLOG_CACHE", "PIP_FIND_LINKS", "JAVA_HOME"):
        monkeypatch.setenv(name, "/of/this/process")
    monkeypatch.setenv("PIP_CERT", "/the/certificates")
    environment = Environment(tmp_path / "env", Path(os.path.realpath(sys.executable)))
    variables = environment.variables(Java(21, "21.0.8", Path("/java")))
    assert "/of/this/process" not in variables.values()
    assert variables["JAVA_HOME"] == "/java"
    assert variables["PIP_CERT"] == "/the/certificates"
    assert set(environment.packages()) <= {"pip", "setuptools"}
    with pytest.raises(ReleaseError, match=r"ended with 3:\nwhy"):
        environment.run(["/bin/sh", "-c", "echo why; exit 3"])
    with pytest.raises(ReleaseError, match=r"`/bin/sleep 60` did not end within 0\.2 s"):
        environment.run(["/bin/sleep", "60"], deadline_s=0.2)


def test_a_package_beside_the_lock_is_named() -> None:
    installed = {"pip": "1", "typer": "2", "pytest": "9", "rich": "15"}
    assert list(differing(installed, {"typer": "2", "rich": "14"})) == [
        "pytest 9 is installed, and the lock has no version",
        "rich 15 is installed, and the lock has 14",
    ]
