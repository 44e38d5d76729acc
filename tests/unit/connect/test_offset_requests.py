"""Stored offsets by the REST API: what a flow stores about its start is no offset, and goes when all of them go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from twinlog.connect.requests import OffsetRequests
from twinlog.connectors.model import ConnectorName, StoredOffset, TargetState

C = ConnectorName("c")
HERE = {"cluster": "a", "partition": 0, "topic": "t"}
STORED = [
    StoredOffset(HERE, {"offset": 4}),
    StoredOffset({**HERE, "partition": 1}, {"offset": -1}),
    StoredOffset({"cluster": "a", "twinlog": "start"}, {"at": 1}),
    StoredOffset({"cluster": "a", "twinlog": "start", "topic": "t"}, {"at": 1, "id": None, "begins": []}),
]


class Offsets:
    def __init__(self) -> None:
        self.put_: list[StoredOffset] = []

    def read_offsets(self, name: ConnectorName) -> list[StoredOffset]:
        assert name == C
        return STORED

    def replace_offsets(self, name: ConnectorName, offsets: Sequence[StoredOffset]) -> None:
        assert name == C
        self.put_ += offsets


def asked(step: Callable[[], Any]) -> Any:
    return step()


def requests() -> tuple[OffsetRequests, Offsets]:
    offsets: Any = Offsets()
    state: Any = SimpleNamespace(read_configs=lambda: None, query_state=lambda _: (TargetState.STOPPED, 0))
    thread: Any = SimpleNamespace(standing_still=lambda *_: nullcontext())
    nothing = dict.fromkeys(("require_started", "require_known", "require_own"), lambda *_: None)
    permission: Any = SimpleNamespace(call_step=asked, **nothing)
    return OffsetRequests(state, offsets, thread, permission), offsets


def test_only_offsets_are_shown() -> None:
    assert requests()[0].read(C) == STORED[:1]


def test_a_reset_lets_the_flow_start_for_the_first_time_again() -> None:
    found, offsets = requests()
    found.reset(C)
    assert offsets.put_ == [StoredOffset(one.partition, None) for one in STORED]
