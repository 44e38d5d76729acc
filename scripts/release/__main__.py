"""Builds a release into dist/, tries its wheel, and writes the checksums: `make release` (`python -m scripts.release`).

Example: make release ARGS="--sign 'gpg --armor --detach-sign'"

Example: make release ARGS="--snapshot --untested"
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.errors import HarnessError
from scripts.release.archives import SUMS, write_sums
from scripts.release.chart import pack_chart, read_about, write_layout
from scripts.release.checkout import Checkout, ReleaseError
from scripts.release.environments import find_javas, find_pythons
from scripts.release.matrix import Matrix, Release, Table
from scripts.release.packages import (
    build_source,
    build_wheel,
    check_contents,
    check_lock,
    metadata,
    write_image,
    write_index,
)
from scripts.release.sbom import write_bill
from twinlog.lease.messages import VERSION as LEASE_VERSION

ROOT = Path(__file__).resolve().parents[2]


def build(checkout: Checkout, dist: Path) -> Release:
    """Build everything but the checksums into the empty folder `dist`. Raises ReleaseError."""
    with tempfile.TemporaryDirectory() as work:
        tree = checkout.export(Path(work, "tree"))
        source = build_source(tree, dist, checkout.epoch)
        wheel = build_wheel(source, dist, checkout.epoch)
        check_contents(wheel, source, tree)
        requirements = (tree / "requirements/runtime.txt").read_text(encoding="utf-8")
        check_lock(wheel, requirements)
        (dist / "requirements.txt").write_text(requirements, encoding="utf-8")
        shutil.copyfile(tree / "requirements/build.txt", dist / "requirements-build.txt")
        write_index(dist, wheel, source)
        write_image(tree, dist, wheel)
        packed = pack_chart(tree / "deploy/helm/twinlog", dist / "chart", checkout.version, checkout.epoch)
        write_layout(packed, read_about(packed), dist / "chart" / "oci", checkout.epoch)
        write_bill(dist / "sbom.cdx.json", wheel, requirements, checkout.epoch, _jars())
    (dist / "release-notes.md").write_text(notes(checkout), encoding="utf-8")
    return Release(dist, checkout.version)


def notes(checkout: Checkout) -> str:
    """The release notes: version, commit, protocol between driver and tasks, and the section of the changelog."""
    about = f"Commit {checkout.commit}. Driver and tasks have protocol version {LEASE_VERSION}."
    return f"# twinlog {checkout.version}\n\n{about}\n\n{checkout.notes}\n"


def _jars() -> Path | None:
    found = importlib.util.find_spec("pyspark")
    return Path(found.origin).parent / "jars" if found is not None and found.origin is not None else None


def sign(command: str, sums: Path) -> None:
    """Run a command that signs the checksums; the path of the file is its last argument. Raises ReleaseError."""
    words = [*shlex.split(command), str(sums)]
    try:
        code = subprocess.run(words, check=False).returncode
    except OSError as error:
        raise ReleaseError(f"{words[0]} cannot be run ({error.strerror}): install it, or sign later") from None
    if code:
        raise ReleaseError(f"`{shlex.join(words)}` ended with {code}: {SUMS} is complete, and has no signature")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.release",
        description="Builds a release into dist/, tries its wheel on each Python, PySpark and Java, writes SHA256SUMS.",
        epilog="Example: make release ARGS=\"--sign 'gpg --armor --detach-sign'\"",
    )
    parser.add_argument(
        "--snapshot", action="store_true", help="take a checkout with changes or without a changelog section"
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "dist", metavar="DIR", help="the folder; its content is replaced"
    )
    parser.add_argument("--untested", action="store_true", help="try nothing; the table says so")
    parser.add_argument("--quick", action="store_true", help="try only the first Python, PySpark and Java")
    parser.add_argument("--python", type=Path, action="append", default=[], metavar="FILE", help="try this Python, too")
    parser.add_argument(
        "--java", type=Path, action="append", default=[], metavar="DIR", help="try the Java of this JAVA_HOME, too"
    )
    parser.add_argument("--sign", metavar="COMMAND", help="run COMMAND with the path of SHA256SUMS at the end")
    return parser.parse_args()


def main() -> int:
    asked = _arguments()
    dist: Path = asked.output.resolve()
    try:
        checkout = Checkout.read(ROOT, snapshot=asked.snapshot)
        print(f"Building twinlog {checkout.version} of commit {checkout.commit[:12]} ...", flush=True)
        empty_folder(dist)
        release = build(checkout, dist)
        (python,) = metadata(next(dist.glob("*.whl")))["Requires-Python"]
        table = _test(release, asked, python)
        (dist / "tested.md").write_text(table.to_markdown(), encoding="utf-8")
        print(table.to_markdown())
        if table.failed:
            raise ReleaseError(f"The wheel failed in at least one row; {SUMS} was not written")
        if not asked.untested and not table.tried:
            raise ReleaseError(f"No row was tried; {SUMS} was not written. Name a Java by --java, a Python by --python")
        sums = write_sums(dist)
        if asked.sign:
            sign(asked.sign, sums)
    except (ReleaseError, HarnessError) as error:
        print(f"problem: {error}", file=sys.stderr)
        return 1
    print(f"{dist} has the release. Check it: cd {dist} && sha256sum --check {SUMS}")
    if not asked.sign:
        print(f"{SUMS} has no signature. Sign it: gpg --armor --detach-sign {dist / SUMS}")
    return 0


def _test(release: Release, asked: argparse.Namespace, allowed: str) -> Table:
    if asked.untested:
        table = Table(release.version)
        table.add_untested("not tested: --untested")
        return table
    pythons, javas = find_pythons(allowed, asked.python), find_javas(asked.java)
    return Matrix(release, pythons, javas, quick=asked.quick, say=lambda line: print(line, flush=True)).run()


def empty_folder(dist: Path) -> None:
    """Remove the files of an earlier release; a folder with other files stays as it is. Raises ReleaseError."""
    if dist.exists():
        strange = [path.name for path in dist.iterdir() if not path.name.startswith(KNOWN)]
        if strange:
            raise ReleaseError(
                f"{dist} has files of no release: {', '.join(sorted(strange)[:5])}. Name an empty folder by --output"
            )
        shutil.rmtree(dist)
    dist.mkdir(parents=True)


KNOWN = ("twinlog-", "simple", "image", "chart", "sbom.cdx.json", "requirements", "release-notes.md", "tested.md", SUMS)
"""Begins of the names in dist/."""


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
