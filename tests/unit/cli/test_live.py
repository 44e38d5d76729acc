"""The live table says what counts on any terminal."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from twinlog.cli import live
from twinlog.run.flow import State
from twinlog.run.view import FlowView


@dataclass
class Flow:
    """As much of a flow as the table looks at."""

    view: FlowView = field(default_factory=FlowView)
    settings: Any = field(default_factory=lambda: SimpleNamespace(name="east->west"))
    state: State = State.RUNNING
    ended: bool = False
    waits: str | None = None
    reason: str | None = None


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_cut_off(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(width=width, color_system=None)
    monkeypatch.setattr(live, "console", console)
    flow = Flow()
    flow.view.note("connect", "cluster primary: no broker can be reached: primary-1:9092: connection refused")
    runner: Any = SimpleNamespace(flows=[flow], idle=[], web_url=None)
    with console.capture() as captured:
        console.print(live.LiveTable(runner)._table())
    shown = captured.get()
    assert "\u2026" not in shown
    for word in ("east->west", "running", "refused", "records/s", "lag", "copied"):
        assert word in shown
    assert ("partitions" in shown) == (width >= live.WIDE)
