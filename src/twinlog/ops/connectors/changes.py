"""What a replaced configuration changes, key by key, without a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinlog.config.keys.scope import connector_key

HIDDEN = "(hidden)"

_REFERENCE = re.compile(r"\$\{[^}]+\}")
# Keys of connectors that twinlog does not know, on a worker of Kafka's.
_SECRET_NAME = re.compile(r"passw|passphrase|pwd|secret|token|credential|jaas|private|api\.?key|(^|[._-])key$", re.I)
_SECRET_VALUE = re.compile(r"(passw\w*|pwd|secret|token)\s*=|://[^/@\s]+:[^/@\s]+@", re.I)


@dataclass(frozen=True, slots=True)
class Change:
    """One key with its values, which may be shown; None where it had none before, or has none afterwards."""

    key: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"+ {self.key} = {self.after}"
        if self.after is None:
            return f"- {self.key} = {self.before}"
        return f"~ {self.key} = {self.before} -> {self.after}"


def changes(before: Mapping[str, str | None], after: Mapping[str, str]) -> Sequence[Change]:
    """The keys that differ, in their order."""
    keys = sorted(key for key in {**before, **after} if before.get(key) != after.get(key))
    return [Change(key, shown(key, before.get(key)), shown(key, after.get(key))) for key in keys]


def shown(key: str, value: str | None) -> str | None:
    """A value as it may be printed: a reference to a secret is none."""
    if value is None or _REFERENCE.fullmatch(value.strip()):
        return value
    known, _ = connector_key(key)
    # A known key has a type; whether another one is secret shows by its name and value alone.
    secret = bool(_SECRET_NAME.search(key)) if known is None else known.secret
    return HIDDEN if secret or _SECRET_VALUE.search(value) else value
