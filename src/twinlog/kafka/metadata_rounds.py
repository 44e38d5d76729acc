"""Joins concurrent metadata requests into one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from twinlog.kafka.metadata import TopicMetadata
from twinlog.kafka.net.loop import Loop
from twinlog.model.types import TopicName

ROUND_S = 0.05
"""How long a round collects requests: each of a thousand partitions of a deleted topic sends one."""


class MetadataRounds:
    """Calls `refresh(topics)` at most once in `ROUND_S`, with the topics of all calls meanwhile."""

    def __init__(
        self,
        loop: Loop,
        refresh: Callable[[Iterable[TopicName]], Coroutine[Any, Any, dict[TopicName, TopicMetadata]]],
    ) -> None:
        self._loop = loop
        self._refresh = refresh
        self._wanted: set[TopicName] = set()
        self._round: Any = None

    async def ask(self, topics: Iterable[TopicName]) -> Mapping[TopicName, TopicMetadata]:
        """Metadata of these topics, read after this call, and of others. Raises as `refresh` does."""
        self._wanted |= set(topics)
        if self._round is None:
            self._round = self._loop.spawn(self._ask)
        found: Mapping[TopicName, TopicMetadata] = await self._round
        return found

    async def _ask(self) -> Mapping[TopicName, TopicMetadata]:
        await self._loop.sleep(ROUND_S)
        wanted, self._wanted, self._round = self._wanted, set(), None
        return await self._refresh(wanted)
