"""The result of a reload of a running process's file, for the log and for the requester."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from twinlog.config.file_changes import FileChange, KeyChange
from twinlog.config.keys.key import UpdateMode
from twinlog.model.compact_json import ascii_json

MOST_KEYS = 500
"""The most keys of a report: a record holds 1 MB by default."""


@dataclass(frozen=True, slots=True)
class ReloadedKey:
    """A changed key, as a sentence without secrets; the way in which it is taken over, and its flows."""

    text: str
    takes: UpdateMode
    flows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """The result of a reload by the process `host-pid` at `at_ms` (Unix time), at the request of `by`.

    With `problems` the file is wrong, and the process keeps its settings. `flows` has the reaction of each flow: of the
    process's flows, and of flows that should begin. With `only_looked` the report is a forecast, and the process keeps
    its settings.
    """

    process: str
    file: str
    by: str
    at_ms: int
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    keys: tuple[ReloadedKey, ...] = ()
    more_keys: int = 0
    flows: Mapping[str, str] = field(default_factory=dict)
    only_looked: bool = False

    @property
    def same(self) -> bool:
        """Whether the process already runs with all settings of the file."""
        return not (self.problems or [key for key in self.keys if key.takes is not UpdateMode.NOTHING])

    @property
    def needs_restart(self) -> bool:
        """Whether a part of the file counts only from the next start of the process."""
        return any(key.takes is UpdateMode.RESTART for key in self.keys)

    def encode(self) -> bytes:
        """The value of a record: a JSON object."""
        return ascii_json(asdict(self))

    @classmethod
    def decode(cls, value: bytes | None) -> ReloadReport | None:
        """A report from a record's value, perhaps of a newer version; None for another value."""
        try:
            found: dict[str, Any] = json.loads(value or b"")
            known: dict[str, Any] = {name: found[name] for name in cls.__dataclass_fields__ if name in found}
            for name in ("problems", "warnings"):
                known[name] = tuple(map(str, found[name]))
            known["keys"] = tuple(
                ReloadedKey(one["text"], UpdateMode(one["takes"]), tuple(one["flows"])) for one in known["keys"]
            )
            return cls(**known)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def read_keys(change: FileChange) -> tuple[ReloadedKey, ...]:
    """The keys of a change, in a form without secrets."""
    return tuple(ReloadedKey(str(key), key.takes, key.flows) for key in change.keys[:MOST_KEYS])


def names(keys: tuple[KeyChange, ...]) -> str:
    """Only the names of the keys, for an audit."""
    return ", ".join(key.key for key in keys) or "nothing"
