"""When a connector that failed is restarted by itself (Strimzi's class AbstractConnectOperator)."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.config.strimzi.resource import AutoRestart

LONGEST_S = 3600.0


@dataclass(slots=True)
class _Restarts:
    count: int
    at: float


class AutoRestarts:
    """Counts the restarts of each connector. The wait before the next is n²+n minutes, 60 at most."""

    def __init__(self) -> None:
        self._done: dict[str, _Restarts] = {}

    def is_due(self, name: str, rule: AutoRestart | None, *, failed: bool, now: float) -> bool:
        """Whether a connector is to be restarted now, which counts as done; `now` is in seconds."""
        done = self._done.get(name)
        if rule is None or not failed:
            if done is not None and (rule is None or now - done.at > _wait_s(done.count)):
                # It has run well for longer than the wait.
                del self._done[name]
            return False
        if done is None:
            done = self._done[name] = _Restarts(0, now)
        elif now - done.at < _wait_s(done.count):
            return False
        if rule.most is not None and done.count >= rule.most:
            return False
        done.count, done.at = done.count + 1, now
        return True

    def count(self, name: str) -> int:
        """How often a connector was restarted since it last ran well."""
        return self._done[name].count if name in self._done else 0


def _wait_s(count: int) -> float:
    return min(60.0 * (count * count + count), LONGEST_S)
