"""The packages of this checkout: the same bytes twice, the right files, and a wheel that pip installs and that runs."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.release.archives import write_sums
from scripts.release.checkout import Checkout, ReleaseError
from scripts.release.packages import (
    build_source,
    build_wheel,
    check_contents,
    check_lock,
    metadata,
    pins,
    write_image,
    write_index,
)

pytestmark = pytest.mark.scenario
ROOT = Path(__file__).parents[4]


@dataclass(frozen=True, slots=True)
class Built:
    """The exported tree, and its packages in `dist`."""

    checkout: Checkout
    tree: Path
    dist: Path
    source: Path
    wheel: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    checkout = Checkout.read(ROOT, snapshot=True)
    tree = checkout.export(tmp_path_factory.mktemp("tree"))
    dist = tmp_path_factory.mktemp("dist")
    source = build_source(tree, dist, checkout.epoch)
    return Built(checkout, tree, dist, source, build_wheel(source, dist, checkout.epoch))


def test_the_source_distribution_has_the_same_bytes_in_another_folder(built: Built, tmp_path: Path) -> None:
    tree = built.checkout.export(tmp_path / "elsewhere")
    again = build_source(tree, tmp_path, built.checkout.epoch)
    assert again.name == built.source.name
    assert again.read_bytes() == built.source.read_bytes()


def test_the_files_are_those_of_the_package(built: Built) -> None:
    check_contents(built.wheel, built.source, built.tree)
    with zipfile.ZipFile(built.wheel) as archive:
        names = archive.namelist()
    assert {"twinlog/py.typed", "twinlog/__init__.pyi", "twinlog/launcher.py", "twinlog/cli/main.py"} <= set(names)
    packages = {"twinlog", "pyspark_twinlog", "pyspark_twinlog_kafka", "pyspark_twinlog_verify"}
    assert {name.split("/")[0] for name in names} == packages | {f"twinlog-{built.checkout.version}.dist-info"}
    with tarfile.open(built.source) as archive:
        members = archive.getmembers()
    assert {member.mtime for member in members} == {built.checkout.epoch}
    assert {(member.uid, member.gid, member.uname) for member in members} == {(0, 0, "root")}
    below = {member.name.split("/")[1] for member in members}
    assert below == {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg", "src"}


def with_a_file(wheel: Path, name: str) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(name, "")


def without_a_file(wheel: Path, name: str) -> None:
    other = wheel.with_suffix(".new")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(other, "w") as new:
        for entry in old.namelist():
            if entry != name:
                new.writestr(entry, old.read(entry))
    other.rename(wheel)


@pytest.mark.parametrize(
    ("change", "name", "message"),
    [
        (with_a_file, "tests/test_x.py", "has tests/test_x.py, which belongs to no package"),
        (without_a_file, "twinlog/py.typed", "lacks twinlog/py.typed"),
    ],
)
def test_a_wheel_with_other_files_is_refused(
    built: Built, tmp_path: Path, change: Callable[[Path, str], None], name: str, message: str
) -> None:
    wheel = Path(shutil.copy(built.wheel, tmp_path))
    change(wheel, name)
    with pytest.raises(ReleaseError, match=re.escape(message)):
        check_contents(wheel, built.source, built.tree)


def test_a_data_file_that_no_pattern_names_is_found(built: Built, tmp_path: Path) -> None:
    tree = Path(shutil.copytree(built.tree, tmp_path / "tree"))
    (tree / "src/twinlog/page.html").write_text("<p>")
    with pytest.raises(ReleaseError, match=r"(?s)lacks twinlog/page\.html.*package-data"):
        check_contents(built.wheel, built.source, tree)


def test_the_lock_fits_the_wheel(built: Built) -> None:
    locked = (ROOT / "requirements/runtime.txt").read_text(encoding="utf-8")
    check_lock(built.wheel, locked)
    assert len(metadata(built.wheel)["Requires-Dist"]) > 10
    with pytest.raises(ReleaseError, match=r"pyspark.*locked: 4\.1\.0.*make lock"):
        check_lock(built.wheel, re.sub(r"^pyspark==\S+", "pyspark==4.1.0", locked, flags=re.MULTILINE))
    with pytest.raises(ReleaseError, match=r"pyarrow.*locked: no version"):
        check_lock(built.wheel, re.sub(r"^pyarrow==", "other==", locked, flags=re.MULTILINE))


def test_every_version_and_licence_that_pip_reads_is_there(built: Built) -> None:
    about = metadata(built.wheel)
    assert about["Version"] == [built.checkout.version]
    assert about["License-Expression"] == ["Apache-2.0"]
    assert about["Requires-Python"] == [">=3.11"]
    assert about["Description-Content-Type"] == ["text/markdown"]


def test_pip_installs_the_wheel_from_the_index_and_it_runs(built: Built, tmp_path: Path) -> None:
    """The environment is empty, and sees the packages of this one behind its own."""
    dist = tmp_path / "dist"
    dist.mkdir()
    source, wheel = (Path(shutil.copy(path, dist)) for path in (built.source, built.wheel))
    index = write_index(dist, wheel, source)
    home = tmp_path / "env"
    venv.create(home, with_pip=False, symlinks=True)
    here = Path(sysconfig.get_path("purelib"))
    own = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    (own / "beside.pth").write_text(f"{here}\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=kept, cwd=tmp_path, capture_output=True, text=True, check=False)

    pip = (sys.executable, "-m", "pip", "--python", str(home), "install", "--no-deps", "--disable-pip-version-check")
    wanted = f"twinlog=={built.checkout.version}"
    done = run(*pip, "--force-reinstall", "--index-url", index.as_uri(), wanted)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = run(str(home / "bin/twinlog"), "--version")
    assert printed.stdout.strip() == f"twinlog {built.checkout.version}", printed.stderr
    place = run(str(home / "bin/python"), "-c", "import twinlog; print(twinlog.__file__)")
    assert place.stdout.startswith(str(own))
    # A file that was changed on its way is refused by its hash in the index.
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    refused = run(*pip, "--force-reinstall", "--no-cache-dir", "--index-url", index.as_uri(), wanted)
    assert refused.returncode != 0
    assert "HASH" in refused.stderr.upper()


def test_the_image_is_built_of_the_wheel(built: Built, tmp_path: Path) -> None:
    folder = write_image(built.tree, tmp_path, built.wheel)
    recipe = (folder / "Containerfile").read_text()
    copied = [
        name for names in re.findall(r"^COPY (?!--from)(.+) \S+$", recipe, re.MULTILINE) for name in names.split()
    ]
    assert "src" not in copied
    assert "pip wheel" not in recipe
    assert all((folder / name).exists() for name in copied)
    assert (folder / "dist" / built.wheel.name).read_bytes() == built.wheel.read_bytes()
    digest = hashlib.sha256(built.wheel.read_bytes()).hexdigest()
    assert (folder / "dist/twinlog.txt").read_text() == f"./dist/{built.wheel.name} --hash=sha256:{digest}\n"
    original = (ROOT / "Containerfile").read_text()
    assert (
        recipe.partition("\nFROM")[2].partition("\nFROM")[2] == original.partition("\nFROM")[2].partition("\nFROM")[2]
    )
    linter = Path(sys.executable).with_name("hadolint")
    if linter.exists():
        done = subprocess.run([linter, folder / "Containerfile"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_the_recipe_installs_the_wheel_by_its_hash(built: Built, tmp_path: Path) -> None:
    folder = write_image(built.tree, tmp_path, built.wheel)
    recipe = (folder / "Containerfile").read_text()
    (command,) = re.findall(r"^RUN (/opt/twinlog/bin/python -m pip install .*dist.*)$", recipe, re.MULTILINE)
    home = tmp_path / "env"
    venv.create(home, with_pip=False, symlinks=True)
    pip = f"{sys.executable} -m pip --python {home} install"

    def install() -> subprocess.CompletedProcess[str]:
        words = command.replace("/opt/twinlog/bin/python -m pip install", pip)
        return subprocess.run(["/bin/sh", "-c", words], cwd=folder, capture_output=True, text=True, check=False)

    done = install()
    assert done.returncode == 0, done.stderr
    assert (home / "bin/connect-distributed.sh").is_file()
    (folder / "dist" / built.wheel.name).write_bytes(built.wheel.read_bytes() + b"\0")
    refused = install()
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr


def test_a_recipe_may_copy_folders_and_a_missing_file_is_named(built: Built, tmp_path: Path) -> None:
    build = "COPY pyproject.toml ./\nCOPY src src\nRUN pip wheel .\n"
    (tmp_path / "Containerfile").write_text(f"FROM scratch\n{build}COPY --chown=1000 tools/inner /opt/\n")
    (tmp_path / "tools/inner").mkdir(parents=True)
    (tmp_path / "tools/inner/a").write_text("a")
    folder = write_image(tmp_path, tmp_path / "out", built.wheel)
    assert (folder / "tools/inner/a").read_text() == "a"
    (tmp_path / "Containerfile").write_text(f"FROM scratch\n{build}COPY gone /opt/\n")
    with pytest.raises(ReleaseError, match="Containerfile copies gone, which the checkout lacks"):
        write_image(tmp_path, tmp_path / "again", built.wheel)


def test_a_recipe_that_builds_otherwise_is_refused(built: Built, tmp_path: Path) -> None:
    (tmp_path / "Containerfile").write_text("FROM scratch\nCOPY src src\nRUN pip install src\n")
    with pytest.raises(ReleaseError, match=r"Containerfile must copy pyproject\.toml and src"):
        write_image(tmp_path, tmp_path, built.wheel)


def test_sums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a").write_text("a")
    (tmp_path / "b").write_text("b")
    sums = write_sums(tmp_path)
    (tmp_path / "SHA256SUMS.asc").write_text("signature")
    assert write_sums(tmp_path).read_text() == sums.read_text()
    lines = [line.split("  ") for line in sums.read_text().splitlines()]
    assert [name for _, name in lines] == ["b", "deep/a"]
    assert lines[0][0] == hashlib.sha256(b"b").hexdigest()


def test_pins_of_a_locked_file() -> None:
    text = '# note\na-b==1.0 \\\n    --hash=sha256:00\nC_d==2.0 ; sys_platform == "linux" \\\n    # via a-b==9\n'
    assert pins(text) == {"a-b": "1.0", "c-d": "2.0"}
