"""Tries a step again as long as its error may pass."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.backoff import Backoff
from twinlog.log_once import AGAIN_S, LogOnce

T = TypeVar("T")

log = logging.getLogger(__name__)

TROUBLED_S = 10.0
"""An error is logged as a warning after so many seconds; a shorter error is usual, as the restart of a broker."""


async def patiently(client: ClusterClient, patience_s: float, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run `step` until it returns.

    Raises the error of `step` when the error is permanent or lasts longer than `patience_s` seconds. A lasting error is
    logged meanwhile.
    """
    backoff = Backoff.of(client.settings)
    give_up_at = client.loop.clock.monotonic() + patience_s
    logged = LogOnce(client.loop.clock)
    while True:
        try:
            return await step()
        except ClusterError as error:
            if not error.retriable or client.loop.clock.monotonic() > give_up_at:
                raise
            if logged.is_due(step, TROUBLED_S, AGAIN_S):
                log.warning("%s; it is tried again for %g s in all", error, patience_s)
        await client.loop.sleep(backoff.count_failure())
