"""Tries a step again as long as what keeps it may pass."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.backoff import Backoff

T = TypeVar("T")


async def patiently(client: ClusterClient, patience_s: float, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What `step` returns at last. Raises its error when that does not pass, or not within `patience_s` seconds."""
    backoff = Backoff(client.settings.retry_backoff_ms, client.settings.retry_backoff_max_ms)
    give_up_at = client.loop.clock.monotonic() + patience_s
    while True:
        try:
            return await step()
        except ClusterError as error:
            if not error.retriable or client.loop.clock.monotonic() > give_up_at:
                raise
        await client.loop.sleep(backoff.failed())
