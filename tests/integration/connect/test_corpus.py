"""Two files of the corpus, run by MirrorMaker 2 and by twinlog; `make conformance ARGS="--suite corpus"` runs all."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.corpus.command import play_all, table

FILES = ("odd-whitespace", "empty-alias-list")


@pytest.mark.parity
def test_files_of_mirrormaker_are_run_as_it_runs_them(tmp_path: Path) -> None:
    verdicts, failed = play_all(FILES, tmp_path)
    assert not failed
    assert [one.case.name for one in verdicts if one.word != "equal"] == [], table(verdicts)
    assert len(verdicts) == len(FILES)
    for one in verdicts:
        assert sum(" records of " in fact for fact in one.mm2.facts) > 8
