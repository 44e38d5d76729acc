"""The checkout that a release is made of: its versions, its notes, its files; and the reasons to refuse it."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

VERSIONS = {
    "pyproject.toml": re.compile(r'^version = "([^"]+)"$', re.MULTILINE),
    "src/twinlog/__init__.py": re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE),
    "deploy/helm/twinlog/Chart.yaml": re.compile(r"^version: (\S+)$", re.MULTILINE),
}
"""The places of the version, which must agree."""
UNRELEASED = "Unreleased"
_COMMIT = "Commit or stash them, or build a snapshot: make release ARGS=--snapshot"
_HEADING = re.compile(r"^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)


class ReleaseError(Exception):
    """A release cannot be made; the text names the reason and the way out."""


@dataclass(frozen=True, slots=True)
class Section:
    """A version's section of CHANGELOG.md; `date` is empty if the heading has no date."""

    version: str
    date: str
    text: str


def sections(changelog: str) -> list[Section]:
    """The sections of a changelog, from the newest on."""
    headings = list(_HEADING.finditer(changelog))
    found = []
    for number, heading in enumerate(headings, 1):
        end = headings[number].start() if number < len(headings) else len(changelog)
        found.append(Section(heading[1], heading[2] or "", changelog[heading.end() : end].strip()))
    return found


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout that may become a release.

    `version` is the version of all packages. `epoch` is the time of the commit in seconds since 1970, and the time of
    every packed file. `notes` is the section of the changelog.
    """

    root: Path
    version: str
    commit: str
    epoch: int
    notes: str
    snapshot: bool

    @classmethod
    def read(cls, root: Path, *, snapshot: bool) -> Self:
        """The checkout at `root`. A snapshot may have changes, and takes its notes from the unreleased section.

        Raises ReleaseError with every reason against a release at once.
        """
        commit = _git(root, "rev-parse", "HEAD").strip()
        epoch = int(_git(root, "log", "-1", "--format=%ct"))
        written = {name: _version(root, name, pattern) for name, pattern in VERSIONS.items()}
        version = written["pyproject.toml"]
        dirty = _git(root, "status", "--porcelain").splitlines()
        found = {section.version: section for section in sections((root / "CHANGELOG.md").read_text(encoding="utf-8"))}
        wrong = list(_disagreements(written))
        if not snapshot:
            wrong += [*_changes(dirty), *_missing_notes(version, found), *_moved_tag(root, version, commit)]
        if wrong:
            raise ReleaseError("\n".join(wrong))
        notes = found.get(UNRELEASED if snapshot else version)
        if snapshot:
            version += f".dev0+g{commit[:8]}{'.dirty' if dirty else ''}"
        return cls(root, version, commit, epoch, notes.text if notes is not None else "", snapshot)

    @property
    def chart_version(self) -> str:
        """The version as Helm requires it (SemVer 2)."""
        return self.version.replace(".dev0", "-dev.0")

    def export(self, target: Path) -> Path:
        """Copy the files of the checkout to `target`, without ignored files, with the version of the release in them.

        The mode of a file is 0755 if it is executable, and 0644 otherwise, whatever the umask is.
        """
        listed = _git(self.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        for name in filter(None, listed.split("\0")):
            source, copy = self.root / name, target / name
            # A tracked file that a snapshot has deleted.
            if not source.is_file():
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            copy.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)
        for name, pattern in VERSIONS.items():
            path = target / name
            text = path.read_text(encoding="utf-8")
            begin, end = next(pattern.finditer(text)).span(1)
            version = self.chart_version if name.endswith(".yaml") else self.version
            path.write_text(text[:begin] + version + text[end:], encoding="utf-8")
        return target


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"git {words[0]} failed in {root}: {done.stderr.strip()}; a release needs a git checkout")
    return done.stdout


def _version(root: Path, name: str, pattern: re.Pattern[str]) -> str:
    found = pattern.findall((root / name).read_text(encoding="utf-8"))
    if len(found) != 1:
        raise ReleaseError(f"{name} must have exactly one line `{pattern.pattern}`, and has {len(found)}")
    return str(found[0])


def _disagreements(written: dict[str, str]) -> list[str]:
    if len(set(written.values())) == 1:
        return []
    listed = ", ".join(f"{version} in {name}" for name, version in written.items())
    return [f"The versions differ: {listed}. Write the same version in all three files."]


def _changes(dirty: list[str]) -> list[str]:
    if not dirty:
        return []
    listed = "\n".join(f"  {line}" for line in dirty[:10]) + ("\n  ..." if len(dirty) > 10 else "")
    return [
        f"The checkout has changes that no commit has:\n{listed}\n{_COMMIT}",
    ]


def _missing_notes(version: str, found: dict[str, Section]) -> list[str]:
    notes, waiting = found.get(version), found.get(UNRELEASED)
    wrong = []
    if notes is None or not notes.date or not notes.text:
        wrong.append(
            f"CHANGELOG.md has no section `## [{version}] - YYYY-MM-DD` with text. Rename `## [{UNRELEASED}]` to it, "
            f"or build a snapshot: make release ARGS=--snapshot"
        )
    elif waiting is not None and waiting.text:
        wrong.append(
            f"CHANGELOG.md has text below `## [{UNRELEASED}]`, which no release would name. Move it to "
            f"`## [{version}]`, or raise the version."
        )
    return wrong


def _moved_tag(root: Path, version: str, commit: str) -> list[str]:
    tagged = _git(root, "for-each-ref", "--format=%(*objectname)%(objectname)", f"refs/tags/v{version}").strip()
    # An annotated tag has the commit first, and then the name of the tag object.
    if not tagged or tagged.startswith(commit):
        return []
    return [f"The tag v{version} exists and names another commit. A released version never changes: raise the version."]
