"""What `twinlog reload` and the processes that run a file's flows write to each other, in a topic on the target.

A process that knows a request by none of its flows passes over it; so does a reader over what it cannot read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from twinlog.model.compact_json import ascii_json
from twinlog.settings.flow import FlowSettings

REQUEST, ANSWER = b"reload ", b"answer "

FlowId = tuple[str, str]
"""A flow's name and its group: two sets of processes may run flows of one name to one cluster."""


@dataclass(frozen=True, slots=True)
class ReloadRequest:
    """A process that runs one of `flows` is to read its file again; with `only_look`, to answer what that would change.

    `by` names who asks, for the audit; `id` is another one for each request.
    """

    id: str
    by: str
    flows: frozenset[FlowId]
    only_look: bool = False

    @property
    def key(self) -> bytes:
        """The key of its record."""
        return REQUEST + self.id.encode()

    def encode(self) -> bytes:
        """The value of its record: one JSON object."""
        return ascii_json({"by": self.by, "flows": sorted(self.flows), "only_look": self.only_look})

    def concerns(self, flows: Iterable[FlowSettings]) -> bool:
        """Whether a process that runs these flows, or would, is asked."""
        return not self.flows.isdisjoint(map(flow_id, flows))

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> ReloadRequest | None:
        """A request from a record, perhaps of a newer version; None when it is none."""
        if key is None or not key.startswith(REQUEST):
            return None
        try:
            found = json.loads(value or b"")
            flows = frozenset((str(name), str(group)) for name, group in found["flows"])
            return cls(key.removeprefix(REQUEST).decode(), str(found["by"]), flows, found["only_look"] is True)
        except (ValueError, TypeError, KeyError):
            return None


def flow_id(flow: FlowSettings) -> FlowId:
    """The name of a flow with that of its group."""
    return flow.name, flow.group_id


def answer_key(request: str, process: str) -> bytes:
    """The key of the answer of a process to a request, by its id."""
    return ANSWER + f"{request} {process}".encode()


def answered_by(key: bytes | None, request: str) -> str | None:
    """The process that a record is the answer of to a request; None when it is none."""
    begin = ANSWER + f"{request} ".encode()
    return None if key is None or not key.startswith(begin) else key.removeprefix(begin).decode(errors="replace")
