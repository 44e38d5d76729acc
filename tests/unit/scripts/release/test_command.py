"""The command of a release: its folder, its notes, the hook that signs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.release.__main__ import ROOT, empty_folder, notes, sign
from scripts.release.checkout import Checkout, ReleaseError
from twinlog.lease.messages import VERSION


def test_an_earlier_release_is_replaced_and_other_files_are_kept(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    empty_folder(dist)
    (dist / "chart").mkdir()
    (dist / "twinlog-0.1.0-py3-none-any.whl").write_text("")
    (dist / "SHA256SUMS.asc").write_text("")
    empty_folder(dist)
    assert not list(dist.iterdir())
    (dist / "thesis.txt").write_text("mine")
    with pytest.raises(ReleaseError, match=r"has files of no release: thesis\.txt\. Name an empty folder by --output"):
        empty_folder(dist)
    assert (dist / "thesis.txt").read_text() == "mine"


def test_the_notes_name_commit_and_protocol_above_the_changes() -> None:
    text = notes(Checkout(ROOT, "1.2.0", "0123abcd", 1, "- A thing.", snapshot=False))
    assert text.startswith("# twinlog 1.2.0\n\nCommit 0123abcd.")
    assert f"protocol version {VERSION}.\n\n- A thing.\n" in text


def test_the_hook_gets_the_path_of_the_sums(tmp_path: Path) -> None:
    sums = tmp_path / "SHA 256"
    sums.write_text("sums")
    sign(f"{sys.executable} -c 'import shutil, sys; shutil.copy(sys.argv[1], sys.argv[1] + \".asc\")'", sums)
    assert (tmp_path / "SHA 256.asc").read_text() == "sums"
    with pytest.raises(ReleaseError, match=r"`false .* ended with 1: SHA256SUMS is complete, and has no signature"):
        sign("false", sums)


def test_a_signing_program_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"no-such-program.*install it, or sign later"):
        sign("no-such-program --sign", tmp_path / "SHA256SUMS")


def test_the_help_has_an_example() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.release", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "Example: make release ARGS=" in done.stdout
    assert "--snapshot" in done.stdout
