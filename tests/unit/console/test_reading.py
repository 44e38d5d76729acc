"""How far the reading of clusters is, on a terminal only."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from twinlog.console import progress as bars


@pytest.mark.parametrize("terminal", [True, False])
def test_bars_are_for_a_terminal(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    shown = StringIO()
    monkeypatch.setattr(bars, "console", Console(file=shown, force_terminal=terminal, width=100))
    with bars.ReadingProgress() as progress:
        progress("east", "settings", 0, 2000)
        progress("east", "settings", 500, 2000)
        progress("west", "topics", 0, 0)
    assert ("east: settings" in shown.getvalue()) is terminal
    assert ("500/2000" in shown.getvalue()) is terminal
