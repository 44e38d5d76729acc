"""A checkout that is no release is refused with every reason; a snapshot of it is built nevertheless."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts.release.checkout import Checkout, ReleaseError, sections

CHANGELOG = """\
# Changelog

## [Unreleased]

## [1.2.0] - 2026-01-31

### Added

- A thing.

## [1.1.0] - 2025-12-01

- An older thing.
"""


def git(root: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.test", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"]
    return subprocess.run(["git", "-C", root, *who, *words], capture_output=True, text=True, check=True).stdout


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Change")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "pyproject.toml": '[project]\nname = "twinlog"\nversion = "1.2.0"\n',
        "src/twinlog/__init__.py": '__version__ = "1.2.0"\n',
        "deploy/helm/twinlog/Chart.yaml": "name: twinlog\nversion: 1.2.0\n",
        "CHANGELOG.md": CHANGELOG,
        ".gitignore": "*.log\n",
        "tool.sh": "#!/bin/sh\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "tool.sh").chmod(0o700)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def test_a_clean_checkout_with_its_section_is_a_release(root: Path) -> None:
    found = Checkout.read(root, snapshot=False)
    assert (found.version, found.chart_version) == ("1.2.0", "1.2.0")
    assert found.notes == "### Added\n\n- A thing."
    assert found.commit == git(root, "rev-parse", "HEAD").strip()
    assert found.epoch == int(git(root, "show", "--no-patch", "--format=%ct"))


def test_changes_and_untracked_files_are_refused_by_name(root: Path) -> None:
    (root / "tool.sh").write_text("changed")
    (root / "new.py").write_text("")
    with pytest.raises(ReleaseError, match=r"M tool\.sh\n.*\?\? new\.py\n.*make release ARGS=--snapshot"):
        Checkout.read(root, snapshot=False)


def test_ignored_files_are_no_change(root: Path) -> None:
    (root / "a.log").write_text("")
    Checkout.read(root, snapshot=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("## [1.2.0] - 2026-01-31", "## [1.2.0]"),
        ("## [1.2.0] - 2026-01-31", "## [1.3.0] - 2026-01-31"),
        ("### Added\n\n- A thing.", ""),
    ],
)
def test_a_version_without_a_section_a_date_or_a_text_is_refused(root: Path, old: str, new: str) -> None:
    (root / "CHANGELOG.md").write_text(CHANGELOG.replace(old, new))
    commit(root)
    with pytest.raises(ReleaseError, match=r"no section `## \[1\.2\.0\] - YYYY-MM-DD` with text"):
        Checkout.read(root, snapshot=False)


def test_text_that_no_release_would_name_is_refused(root: Path) -> None:
    (root / "CHANGELOG.md").write_text(CHANGELOG.replace("[Unreleased]", "[Unreleased]\n\n- Left over."))
    commit(root)
    with pytest.raises(ReleaseError, match=r"text below `## \[Unreleased\]`"):
        Checkout.read(root, snapshot=False)


def test_versions_that_differ_are_refused_also_for_a_snapshot(root: Path) -> None:
    (root / "deploy/helm/twinlog/Chart.yaml").write_text("name: twinlog\nversion: 1.1.0\n")
    with pytest.raises(ReleaseError, match=r"1\.2\.0 in pyproject\.toml.*1\.1\.0 in deploy/helm/twinlog/Chart\.yaml"):
        Checkout.read(root, snapshot=True)


@pytest.mark.parametrize("options", [[], ["--annotate", "--message", "m"]])
def test_a_released_version_stays_with_its_commit(root: Path, options: list[str]) -> None:
    git(root, "tag", *options, "v1.2.0")
    Checkout.read(root, snapshot=False)
    (root / "tool.sh").write_text("changed")
    commit(root)
    with pytest.raises(ReleaseError, match=r"tag v1\.2\.0 exists"):
        Checkout.read(root, snapshot=False)


def test_all_reasons_come_at_once(root: Path) -> None:
    (root / "CHANGELOG.md").write_text("# Changelog\n")
    with pytest.raises(ReleaseError) as refused:
        Checkout.read(root, snapshot=False)
    assert "M CHANGELOG.md" in str(refused.value)
    assert "no section" in str(refused.value)


def test_a_snapshot_has_a_version_of_its_own_in_every_file(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (root / "tool.sh").write_text("changed")
    (root / "new.py").write_text("new")
    (root / "a.log").write_text("ignored")
    (root / "pyproject.toml").chmod(0o666)
    found = Checkout.read(root, snapshot=True)
    commit_id = found.commit[:8]
    assert found.version == f"1.2.0.dev0+g{commit_id}.dirty"
    assert found.chart_version == f"1.2.0-dev.0+g{commit_id}.dirty"
    tree = found.export(tmp_path_factory.mktemp("export"))
    assert f'version = "{found.version}"' in (tree / "pyproject.toml").read_text()
    assert f'__version__ = "{found.version}"' in (tree / "src/twinlog/__init__.py").read_text()
    assert f"version: {found.chart_version}\n" in (tree / "deploy/helm/twinlog/Chart.yaml").read_text()
    assert (tree / "tool.sh").read_text() == "changed"
    assert (tree / "tool.sh").stat().st_mode & 0o777 == 0o755
    assert (tree / "pyproject.toml").stat().st_mode & 0o777 == 0o644
    assert (tree / "new.py").is_file()
    assert not (tree / "a.log").exists()
    assert not (tree / ".git").exists()


def test_a_folder_without_git_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="a release needs a git checkout"):
        Checkout.read(tmp_path, snapshot=True)


def test_sections_of_a_changelog() -> None:
    found = sections(CHANGELOG)
    assert [(one.version, one.date) for one in found] == [
        ("Unreleased", ""),
        ("1.2.0", "2026-01-31"),
        ("1.1.0", "2025-12-01"),
    ]
    assert found[2].text == "- An older thing."
