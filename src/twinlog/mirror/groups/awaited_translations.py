"""Which groups have an offset without an exact translation, and since when.

A group that reads along at the end of a topic has nearly always committed something that was not copied when it was
looked at, and is well all the same: what counts is how long one and the same offset waits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from twinlog.model.types import GroupId, SourceOffset, TopicPartition

LATE_S = 30.0
"""An offset that waits for so long is no matter of moments any more: it was copied by MirrorMaker 2, or is too old."""


class AwaitedTranslations:
    """The offsets that wait; `exact(where, offset)` is whether one can be translated exactly now."""

    def __init__(self, exact: Callable[[TopicPartition, SourceOffset], bool]) -> None:
        self._exact = exact
        self._since: dict[GroupId, dict[TopicPartition, tuple[SourceOffset, float]]] = {}

    def __contains__(self, group: GroupId) -> bool:
        return group in self._since

    def take(self, group: GroupId, offsets: Mapping[TopicPartition, SourceOffset], now: float) -> None:
        """A group stands at these offsets now (monotonic seconds), of those that cannot be translated exactly."""
        before = self._since.pop(group, {})
        waiting = {}
        for where, offset in offsets.items():
            first, since = before.get(where, (offset, now))
            if first > offset or (first < offset and self._exact(where, first)):
                first, since = offset, now
            waiting[where] = first, since
        if waiting:
            self._since[group] = waiting

    def since(self) -> dict[GroupId, float]:
        """Since when the newest offset of each group waits."""
        return {group: max(since for _, since in waiting.values()) for group, waiting in self._since.items()}

    def keep(self, groups: Collection[GroupId]) -> None:
        """Forget all other groups."""
        for group in self._since.keys() - groups:
            del self._since[group]

    def late(self, now: float) -> int:
        """How many groups have an offset that has waited for longer than `LATE_S`."""
        return sum(any(now - since > LATE_S for _, since in waiting.values()) for waiting in self._since.values())
