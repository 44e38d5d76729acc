"""A flow that failed in a process has figures of another time: it shows that it failed, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.connect.running_connector import WorkerConnector
from twinlog.connect.worker_metrics import _flow
from twinlog.connectors.model import ConnectorName, TargetState
from twinlog.metrics.meters import FlowMeters
from twinlog.worker.run_metrics import _flow_facts
from twinlog.worker.status.families import FlowMetricFacts


@pytest.mark.parametrize(("flow", "failure"), [(None, None), (None, "refused"), (object(), "no permission")])
def test_a_flow_that_does_not_run_here_has_events_only(flow: object, failure: str | None) -> None:
    meters = FlowMeters()
    place: Any = SimpleNamespace(
        flow=flow,
        failure=failure,
        settings=SimpleNamespace(name="east->west"),
        flow_status=SimpleNamespace(meters=meters),
    )
    found = _flow_facts(place)
    assert found == FlowMetricFacts("east->west", leads=False, meters=meters, failed=failure is not None)


@pytest.mark.parametrize(
    ("target", "failed"), [(TargetState.STARTED, True), (TargetState.PAUSED, True), (TargetState.STOPPED, False)]
)
def test_a_connector_that_cannot_begin_has_failed_unless_it_is_to_be_stopped(target: TargetState, failed: bool) -> None:
    facts = _flow(WorkerConnector(ConnectorName("copy"), None, target, refused="topics: not known"))
    assert (facts is not None and facts.failed) is failed
    assert facts is None or (facts.flow, facts.leads) == ("copy", False)
