"""What became of a file that a running process was asked to read again; as it is logged, and sent to who asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from twinlog.config.file_changes import FileChange, KeyChange
from twinlog.config.keys.live_keys import UpdateMode
from twinlog.model.compact_json import ascii_json

MOST_KEYS = 500
"""Of one report: a record holds 1 MB by default."""


@dataclass(frozen=True, slots=True)
class ReloadedKey:
    """A key that has another value than before, as a sentence without secrets; how it is taken over, by which flows."""

    text: str
    takes: UpdateMode
    flows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """What the process `host-pid` did at `at_ms` (Unix time) with its FILE, which `by` asked it to read again.

    With `problems` the file is wrong, and nothing has changed. `flows` has what each flow does: those of the process,
    and those that were to begin. With `only_looked` nothing was taken over, and all is what would become of it.
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
        """Whether the file has nothing that the process does not run with."""
        return not (self.problems or [key for key in self.keys if key.takes is not UpdateMode.NOTHING])

    @property
    def needs_restart(self) -> bool:
        """Whether something of the file counts from the next start of the process on only."""
        return any(key.takes is UpdateMode.RESTART for key in self.keys)

    def encode(self) -> bytes:
        """As the value of a record: one JSON object."""
        return ascii_json(asdict(self))

    @classmethod
    def decode(cls, value: bytes | None) -> ReloadReport | None:
        """A report from a record's value, perhaps of a newer version; None when it is none."""
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
    """The keys of a change as they may be shown."""
    return tuple(ReloadedKey(str(key), key.takes, key.flows) for key in change.keys[:MOST_KEYS])


def names(keys: tuple[KeyChange, ...]) -> str:
    """Of keys their names alone, for an audit."""
    return ", ".join(key.key for key in keys) or "nothing"
