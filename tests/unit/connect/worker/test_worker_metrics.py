"""What a worker measures while its connectors come and go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.connect import worker_metrics as module
from twinlog.connect.instances import SourceConnector
from twinlog.connect.worker_metrics import WorkerMetrics


class Ends(SourceConnector):
    """A connector that is being ended: it is asked once whether the flow runs, and not any more then."""

    def __init__(self) -> None:
        self._flows: list[Any] = [SimpleNamespace(flow_status=SimpleNamespace(meters="meters"))]

    @property
    def running(self) -> Any:
        return self._flows.pop() if self._flows else None


def test_a_connector_that_ends_while_it_is_measured_spoils_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "copying_beans", lambda flow, *_, **__: [flow.flow_status.meters])
    monkeypatch.setattr(module, "connector_beans", lambda *given: [given[-1]])
    worker: Any = SimpleNamespace(spark=None, connectors={})
    metrics = WorkerMetrics("c", "eager", cast(Any, None), worker, VirtualClock(), partitions=False)
    ends: Any = SimpleNamespace(instance=Ends())
    facts: Any = SimpleNamespace(name="c")
    measured: list[Any] = list(metrics._of(ends, facts, 0.0))
    assert measured == ["meters", "meters"]
