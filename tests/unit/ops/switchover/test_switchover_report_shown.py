"""Where a report goes is looked at before anything of a switchover is done."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from twinlog.cli.main import app

FLOWS = "clusters = a, b\na.bootstrap.servers = 127.0.0.1:1\nb.bootstrap.servers = 127.0.0.1:1\na->b.enabled = true\n"


@pytest.mark.parametrize("report", ["none/handover", ".", "file/handover", "taken"])
def test_a_report_that_could_not_be_written_is_refused_before_any_cluster_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mm2.properties").write_text(FLOWS, "utf-8")
    Path("file").touch()
    Path("taken.md").mkdir()
    words = ["switchover", "mm2.properties", "--from", "a", "--to", "b", "--report", report]
    found = CliRunner().invoke(app, words)
    assert (found.exit_code, "Invalid value for --report" in found.output) == (2, True), found.output
