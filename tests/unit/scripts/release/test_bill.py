"""The list of all that a release brings: every locked package, its hashes and licence, and the jars inside PySpark."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from scripts.release.checkout import ReleaseError
from scripts.release.sbom import licence_of, locked, write_bill

LOCK = (Path(__file__).parents[4] / "requirements/runtime.txt").read_text(encoding="utf-8")
METADATA = """\
Metadata-Version: 2.4
Name: twinlog
Version: 1.2.0
Summary: Copies
License-Expression: Apache-2.0
Requires-Dist: pyspark<4.4,>=4.2
Requires-Dist: typer>=0.29
"""
VENDORED = (Path(__file__).parents[4] / "src/twinlog/ui/static/vendored.json").read_text(encoding="utf-8")
JAR = "some-tool_2.13-1.2.3.jar"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "twinlog-1.2.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("twinlog-1.2.0.dist-info/METADATA", METADATA)
        archive.writestr("twinlog/ui/static/vendored.json", VENDORED)
    return path


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    with zipfile.ZipFile(folder / JAR, "w") as jar:
        jar.writestr(
            "META-INF/MANIFEST.MF", "Bundle-License: https://www.apache.org/licenses/LI\r\n CENSE-2.0.txt;x=y\r\n"
        )
        jar.writestr("META-INF/maven/org.example/some-tool/pom.xml", "<project/>")
    with zipfile.ZipFile(folder / "bare.jar", "w") as jar:
        jar.writestr("A.class", "")
    return folder


def bill(target: Path, wheel: Path, lock: str = LOCK, jars: Path | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(write_bill(target, wheel, lock, 1_700_000_000, jars).read_text())
    return found


def test_every_locked_package_has_its_version_licence_and_hashes(tmp_path: Path, wheel: Path) -> None:
    found = bill(tmp_path / "bill.json", wheel)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    components = {each["name"]: each for each in found["components"] if each["purl"].startswith("pkg:pypi/")}
    assert {name: each["version"] for name, each in components.items()} == {
        name: version for name, (version, _) in locked(LOCK).items()
    }
    for name, each in components.items():
        assert each["purl"] == f"pkg:pypi/{name}@{each['version']}"
        assert each["licenses"], name
        (files,) = each["externalReferences"]
        assert {entry["content"] for entry in files["hashes"]} == set(locked(LOCK)[name][1])
        assert {entry["alg"] for entry in files["hashes"]} == {"SHA-256"}
    assert found["metadata"]["component"]["version"] == "1.2.0"
    assert found["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"


def test_dependencies_are_those_of_the_metadata(tmp_path: Path, wheel: Path) -> None:
    found = bill(tmp_path / "bill.json", wheel)
    names = {entry["ref"].split("/")[1].split("@")[0]: entry.get("dependsOn", []) for entry in found["dependencies"]}
    wanted = ["pkg:npm/htmx.org", "pkg:npm/uplot", "pkg:pypi/pyspark", "pkg:pypi/typer"]
    assert [ref.split("@")[0] for ref in names["twinlog"]] == wanted
    assert [ref.split("@")[0] for ref in names["pyspark"]] == ["pkg:pypi/py4j"]
    # Pandas is an extra of pyspark's, which no install of twinlog asks for.
    assert not any("pandas" in ref for ref in names["pyspark"])


def test_jars_are_inside_pyspark_with_their_coordinates(tmp_path: Path, wheel: Path, jars: Path) -> None:
    found = bill(tmp_path / "bill.json", wheel, jars=jars)
    (spark,) = (each for each in found["components"] if each["name"] == "pyspark")
    tool, bare = sorted(spark["components"], key=lambda each: each["name"] == "bare")
    assert tool["purl"] == "pkg:maven/org.example/some-tool_2.13@1.2.3"
    assert tool["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    assert re.fullmatch("[0-9a-f]{64}", tool["hashes"][0]["content"])
    assert bare["purl"] == "pkg:generic/bare"
    assert "licenses" not in bare


def test_scripts_of_the_console_have_their_package_licence_and_files(tmp_path: Path, wheel: Path) -> None:
    found = bill(tmp_path / "bill.json", wheel)
    scripts = {each["name"]: each for each in found["components"] if each["purl"].startswith("pkg:npm/")}
    listed = {package["package"]: package for package in json.loads(VENDORED)["packages"]}
    assert scripts.keys() == listed.keys() != set()
    for name, each in scripts.items():
        (package,) = each["externalReferences"]
        assert len(package["hashes"][0]["content"]) == 128
        files = {file["name"]: file["hashes"][0]["content"] for file in each["components"]}
        assert files == listed[name]["files"]
        assert each["licenses"] == [{"license": {"id": listed[name]["licence"]}}]


def test_a_wheel_without_its_list_of_scripts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twinlog-1.2.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("twinlog-1.2.0.dist-info/METADATA", METADATA)
    with pytest.raises(ReleaseError, match=r"has no twinlog/ui/static/vendored\.json"):
        bill(tmp_path / "bill.json", path)


def test_the_same_release_has_the_same_bytes(tmp_path: Path, wheel: Path, jars: Path) -> None:
    first, second = (bill(tmp_path / name, wheel, jars=jars) for name in ("a", "b"))
    assert first == second
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_package_that_is_not_installed_as_locked_is_refused(tmp_path: Path, wheel: Path) -> None:
    with pytest.raises(ReleaseError, match=r"\.venv has typer \S+, and the lock has 0\.1"):
        bill(tmp_path / "bill.json", wheel, re.sub(r"^typer==\S+", "typer==0.1", LOCK, flags=re.MULTILINE))


def test_a_lock_without_hashes_is_refused(tmp_path: Path, wheel: Path) -> None:
    version = locked(LOCK)["typer"][0]
    with pytest.raises(ReleaseError, match="no hash of typer"):
        bill(tmp_path / "bill.json", wheel, f"typer=={version}\n")


@pytest.mark.parametrize(
    ("about", "wanted"),
    [
        ({"license_expression": "MIT"}, "MIT"),
        ({"classifier": ["License :: OSI Approved :: Apache Software License"]}, "Apache-2.0"),
        ({"license": "Apache License, Version 2.0"}, "Apache-2.0"),
        ({"license": "A long text\nof a licence", "classifier": ["License :: OSI Approved :: MIT License"]}, "MIT"),
    ],
)
def test_licences_are_spdx_ids(about: dict[str, object], wanted: str) -> None:
    licence = licence_of(about)
    assert getattr(licence, "id", None) == wanted


def test_a_package_that_names_no_licence_has_none() -> None:
    assert licence_of({"classifier": ["License :: OSI Approved"]}) is None
