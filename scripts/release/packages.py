"""The source distribution, the wheel, and the folder that pip reads as an index."""

from __future__ import annotations

import base64
import hashlib
import html
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import Requirement

from scripts.release.archives import PackedFile, files_below, pack, sha256, unpack
from scripts.release.checkout import ReleaseError

BUILD_S = 600
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;]+)", re.MULTILINE)
_INFO = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt"}
_SOURCE = {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}
_EGG_INFO = {"PKG-INFO", "SOURCES.txt", "dependency_links.txt", "entry_points.txt", "requires.txt", "top_level.txt"}


def build_source(tree: Path, target: Path, epoch: int) -> Path:
    """Build the source distribution of an exported tree into the folder `target`: the same bytes for the same tree."""
    with tempfile.TemporaryDirectory() as work:
        _build("--sdist", tree, Path(work), epoch)
        (built,) = Path(work).glob("*.tar.gz")
        path = target / built.name
        path.write_bytes(pack(unpack(built.read_bytes()), epoch))
    return path


def build_wheel(source: Path, target: Path, epoch: int) -> Path:
    """Build the wheel of a source distribution into the folder `target`.

    The wheel is built twice, in two folders. Raises ReleaseError if the bytes differ.
    """
    built = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as work:
            tree = _extract(source, Path(work))
            _build("--wheel", tree, Path(work, "wheel"), epoch)
            (path,) = Path(work, "wheel").glob("*.whl")
            built.append((path.name, path.read_bytes()))
    if built[0] != built[1]:
        raise ReleaseError(
            f"Two builds of {built[0][0]} from {source.name} differ. "
            "Look for times, paths or random order in the wheel."
        )
    name, data = built[0]
    (target / name).write_bytes(data)
    return target / name


def _extract(source: Path, folder: Path) -> Path:
    for name, file in unpack(source.read_bytes()).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(0o755 if file.executable else 0o644)
    return folder / source.name.removesuffix(".tar.gz")


def _build(kind: str, tree: Path, target: Path, epoch: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "build", kind, "--no-isolation", "--outdir", str(target), str(tree)],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)},
        # Archives keep modes, and nobody's own umask may change them.
        umask=0o022,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_S,
    )
    if done.returncode:
        raise ReleaseError(f"build {kind} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def check_contents(wheel: Path, source: Path, tree: Path) -> None:
    """Check that both archives have each file of `src` and the package's own metadata, and no further file.

    Raises ReleaseError, which lists every file that is missing, superfluous or changed.
    """
    code = {
        path.relative_to(tree / "src").as_posix(): path.read_bytes()
        for path in (tree / "src").rglob("*")
        if path.is_file() and not {"__pycache__", "twinlog.egg-info"} & set(path.relative_to(tree).parts)
    }
    name = "-".join(wheel.name.split("-")[:2])
    with zipfile.ZipFile(wheel) as archive:
        packed = {entry: archive.read(entry) for entry in archive.namelist()}
    info = {f"{name}.dist-info/{entry}" for entry in _INFO}
    wrong = [f"{wheel.name}: {line}" for line in _differences(packed, code, info)]
    sent = {path.partition("/")[2]: file.data for path, file in unpack(source.read_bytes()).items()}
    own = _SOURCE | {f"src/twinlog.egg-info/{entry}" for entry in _EGG_INFO}
    wrong += [
        f"{source.name}: {line}"
        for line in _differences(sent, {f"src/{path}": data for path, data in code.items()}, own)
    ]
    wrong += [f"{wheel.name}: {line}" for line in _wrong_records(packed, f"{name}.dist-info/RECORD")]
    if wrong:
        listed = "\n".join(f"  {line}" for line in wrong)
        raise ReleaseError(
            f"The packages have other files than they should:\n{listed}\n"
            "Data files need a pattern below [tool.setuptools.package-data] of pyproject.toml."
        )


def _differences(packed: dict[str, bytes], code: dict[str, bytes], info: set[str]) -> Iterator[str]:
    wanted = code.keys() | info
    yield from (f"lacks {path}" for path in sorted(wanted - packed.keys()))
    yield from (f"has {path}, which belongs to no package" for path in sorted(packed.keys() - wanted))
    yield from (f"has another {path}" for path in sorted(code.keys() & packed.keys()) if packed[path] != code[path])


def _wrong_records(packed: dict[str, bytes], record: str) -> Iterator[str]:
    for line in packed.get(record, b"").decode().splitlines():
        path, digest, _ = line.rsplit(",", 2)
        found = base64.urlsafe_b64encode(hashlib.sha256(packed.get(path, b"")).digest()).decode().rstrip("=")
        if path != record and digest != f"sha256={found}":
            yield f"RECORD has another hash of {path}"


def metadata(wheel: Path) -> dict[str, list[str]]:
    """The fields of a wheel's METADATA, each with its values."""
    name = "-".join(wheel.name.split("-")[:2])
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"{name}.dist-info/METADATA").decode()
    found: dict[str, list[str]] = {}
    for field, value in HeaderParser().parsestr(text).items():
        found.setdefault(field, []).append(value)
    return found


def pins(requirements: str) -> dict[str, str]:
    """The packages of a locked file and their versions."""
    return {name.lower().replace("_", "-"): version for name, version in _PIN.findall(requirements)}


def check_lock(wheel: Path, requirements: str) -> None:
    """Check that the locked file has a version of each dependency of the wheel that the wheel allows.

    Raises ReleaseError, which names each dependency.
    """
    locked = pins(requirements)
    wrong = []
    for text in metadata(wheel).get("Requires-Dist", []):
        wanted = Requirement(text)
        version = locked.get(wanted.name.lower().replace("_", "-").replace(".", "-"))
        if version is None or not wanted.specifier.contains(version, prereleases=True):
            wrong.append(f"{text} (locked: {version or 'no version'})")
    if wrong:
        raise ReleaseError(
            f"requirements/runtime.txt does not fit pyproject.toml: {'; '.join(wrong)}. Run `make lock`."
        )


def write_index(target: Path, *packages: Path) -> Path:
    """Write the simple index (PEP 503) of `packages`, with hashes, into `target/simple`; links are relative."""
    (python,) = metadata(next(path for path in packages if path.suffix == ".whl"))["Requires-Python"]
    folder = target / "simple" / "twinlog"
    folder.mkdir(parents=True)
    needed = f'data-requires-python="{html.escape(python)}"'
    links = [f'<a href="../../{path.name}#sha256={sha256(path)}" {needed}>{path.name}</a><br>' for path in packages]
    _write_page(folder.parent / "index.html", "Simple index", ['<a href="twinlog/">twinlog</a>'])
    _write_page(folder / "index.html", "Links for twinlog", links)
    return folder.parent


def _write_page(path: Path, title: str, lines: list[str]) -> None:
    head = (
        f'<!DOCTYPE html>\n<html><head><meta name="pypi:repository-version" content="1.0"><title>{title}</title></head>'
    )
    path.write_text("\n".join([head, "<body>", *lines, "</body></html>", ""]), encoding="utf-8")


def write_image(tree: Path, target: Path, wheel: Path) -> Path:
    """Write the context of the image's build into `target/image`: the wheel takes the place of the sources.

    Raises ReleaseError if the Containerfile builds the wheel in another way than this function knows.
    """
    folder = target / "image"
    instructions = _instructions((tree / "Containerfile").read_text(encoding="utf-8"))
    source = [text for text in instructions if re.match(r"COPY (pyproject\.toml|src) ", text)]
    builds = [text for text in instructions if text.startswith("RUN ") and "pip wheel" in text]
    if len(source) != 2 or len(builds) != 1:
        raise ReleaseError(
            "Containerfile must copy pyproject.toml and src by two COPY instructions, and build by one RUN with "
            "`pip wheel`; change scripts/release/packages.py with it"
        )
    install = (
        "COPY dist dist\n"
        "RUN /opt/twinlog/bin/python -m pip install --no-deps --no-index --require-hashes -r dist/twinlog.txt\n"
    )
    kept = [install if text is builds[0] else text for text in instructions if text not in source]
    recipe = "".join(kept).replace(
        "# `make image` builds it.", f"# Build it here: docker build --tag twinlog:{_tag(wheel)} ."
    )
    files = {
        "Containerfile": PackedFile(recipe.encode()),
        f"dist/{wheel.name}": PackedFile(wheel.read_bytes()),
        "dist/twinlog.txt": PackedFile(f"./dist/{wheel.name} --hash=sha256:{sha256(wheel)}\n".encode()),
    }
    for text in kept:
        found = re.match(r"COPY (?!--from)(.+)$", text.strip())
        for name in found[1].split()[:-1] if found is not None else ():
            if name != "dist" and not name.startswith("--"):
                files |= _copied(tree, name)
    for name, file in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(0o755 if file.executable else 0o644)
    return folder


def _copied(tree: Path, name: str) -> dict[str, PackedFile]:
    """The file or the files of the folder that a COPY instruction names, by their paths in the context."""
    path = tree / name
    if not path.exists():
        raise ReleaseError(f"Containerfile copies {name}, which the checkout lacks")
    if path.is_dir():
        return {f"{name.rstrip('/')}/{inner}": file for inner, file in files_below(path).items()}
    return {name: PackedFile(path.read_bytes(), bool(path.stat().st_mode & 0o100))}


def _tag(wheel: Path) -> str:
    return wheel.name.split("-")[1].replace("+", "-")


def _instructions(text: str) -> list[str]:
    """The instructions of a container file with their line ends; a comment or an empty line is an instruction, too."""
    found: list[str] = []
    open_line = False
    for line in text.splitlines(keepends=True):
        if open_line:
            found[-1] += line
        else:
            found.append(line)
        open_line = line.rstrip("\n").endswith("\\") and not line.startswith("#")
    return found
