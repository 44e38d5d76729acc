"""Two flows into one remote topic: who may write it does not depend on who starts first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twinlog.run.rivals import first_to_write, may_meet
from twinlog.settings import AdminSettings, ClientSettings, ConsumerSettings, FlowSettings, ProducerSettings
from twinlog.types import Alias

CLIENT = ClientSettings(("nowhere:9092",))


def flow(source: str, target: str, policy: str = "identity") -> FlowSettings:
    return FlowSettings(
        source=Alias(source),
        target=Alias(target),
        consumer=ConsumerSettings(CLIENT),
        producer=ProducerSettings(CLIENT),
        source_admin=AdminSettings(CLIENT),
        target_admin=AdminSettings(CLIENT),
        policy=policy,  # type: ignore[arg-type]
    )


def test_only_flows_that_keep_names_into_one_cluster_can_meet() -> None:
    one = flow("a", "c")
    assert may_meet(one, flow("b", "c"))
    assert may_meet(one, flow("b", "c", "default"))
    assert may_meet(flow("b", "c", "default"), one)
    assert may_meet(flow("a", "c", "default"), flow("b", "c", "custom"))
    assert not may_meet(flow("a", "c", "default"), flow("b", "c", "default"))
    assert not may_meet(one, flow("b", "d"))
    assert not may_meet(one, one)
    assert not may_meet(one, replace(flow("b", "c"), enabled=False))


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("other_copied", [True, False])
def test_just_one_of_two_writes(*, copied: bool, other_copied: bool) -> None:
    first = first_to_write(0, 1, copied=copied, other_copied=other_copied)
    second = first_to_write(1, 0, copied=other_copied, other_copied=copied)
    assert first != second
    # Whoever began goes on; else the one that stands first in the file.
    assert first == (copied or not other_copied)
