"""How a process presents itself to the others that share a flow: its name, and a fingerprint of what it was told."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from twinlog.run.fingerprint import Fingerprint, fingerprint
from twinlog.settings import FlowSettings


@dataclass(frozen=True, slots=True)
class Member:
    """A process as a member of its flow's group; `name` is `host-pid`."""

    name: str
    settings: Fingerprint = field(default_factory=dict, repr=False)

    @classmethod
    def here(cls, settings: FlowSettings) -> Member:
        """This process."""
        return cls(f"{socket.gethostname()}-{os.getpid()}", fingerprint(settings))

    def encode(self) -> bytes:
        """As metadata of a JoinGroup request: a JSON object with the fields `name` and `settings`."""
        return _dump({"name": self.name, "settings": dict(self.settings)})

    @classmethod
    def decode(cls, data: bytes) -> Member:
        """Of another version perhaps: what is missing counts as unknown."""
        told = _load(data)
        settings = told.get("settings")
        return cls(str(told.get("name", "unknown")), settings if isinstance(settings, dict) else {})


@dataclass(frozen=True, slots=True)
class Leadership:
    """Who runs a flow, and since when in seconds of Unix time; the leader gives it to every member."""

    leader: Member
    since: float

    def encode(self) -> bytes:
        """As assignment of a SyncGroup request: the leader's JSON object with one more field `since`."""
        return _dump({"name": self.leader.name, "settings": dict(self.leader.settings), "since": self.since})

    @classmethod
    def decode(cls, data: bytes) -> Leadership:
        since = _load(data).get("since", 0.0)
        return cls(Member.decode(data), float(since) if isinstance(since, int | float) else 0.0)

    def __str__(self) -> str:
        if not self.since:
            return self.leader.name
        return f"{self.leader.name} (since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(self.since))})"


def _dump(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _load(data: bytes) -> dict[str, object]:
    try:
        told = json.loads(data or b"{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
