"""Reads a remote topic's limit again when a record exceeds the known limit.

The limit may have been raised, or may be raised soon. A grant carries `max.message.bytes` as the driver last read it.
Once the limit is raised on the source, larger records may come at once, and the remote topic follows a moment later
(`mirror/topics/configs.py`).
"""

from __future__ import annotations

from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.errors import ClusterError
from twinlog.kafka.admin.configs import describe_configs
from twinlog.kafka.client import ClusterClient
from twinlog.model.topics import largest_batch
from twinlog.model.types import TopicName

FOLLOWS_S = 15.0
"""How long a record waits for the remote topic's limit to follow its source's limit."""

LOOK_S = 0.5
LIMIT_EVENT = "limit"
"""The kind of event on which the driver brings settings up to date at once."""


class MaxMessageBytes:
    """Reads limits for the partitions of a copier; an event asks the driver to raise a limit."""

    def __init__(self, context: CopierContext) -> None:
        self._context = context
        self._loop = context.loop
        self._source = context.source
        self._target = context.target
        self._follows = context.settings.sync_topic_configs_interval_s is not None

    async def refresh_limit(self, part: PartitionCopy) -> None:
        """Read the current limit of the remote topic and let the partition continue with it, raised or unchanged."""
        reported = False
        deadline = self._loop.clock.monotonic() + FOLLOWS_S
        while not part.left:
            try:
                limit = await _limit(self._target, part.remote.topic)
                wanted = await _limit(self._source, part.source.topic)
            except ClusterError as error:
                part.report_trouble(str(error))
                await self._loop.sleep(LOOK_S)
                continue
            known = part.limit.topic_bytes
            awaited = self._follows and limit is not None and wanted is not None and known >= limit < wanted
            if not awaited or self._loop.clock.monotonic() > deadline:
                part.take_limit(limit)
                return
            text = f"a record does not fit, {part.remote.topic} takes {limit} bytes and {part.source.topic} {wanted}"
            part.report_trouble(text)
            if not reported:
                reported = True
                self._context.report_event(LIMIT_EVENT, f"{text}; the settings of both are compared now")
            await self._loop.sleep(LOOK_S)


async def _limit(client: ClusterClient, topic: TopicName) -> int | None:
    """The topic's `max.message.bytes`, or None if the answer lacks the topic."""
    found, _ = await describe_configs(client, [topic])
    return largest_batch(found.get(topic, ()))
