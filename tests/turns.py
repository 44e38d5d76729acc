"""Lets an event loop do whatever it can do, where a test is about to assert that something did not happen."""

from __future__ import annotations

from twinlog.kafka.net.loop import Loop

TURNS = 100
"""More than any chain of coroutines has links."""


async def let_others_go_on(loop: Loop) -> None:
    """Return once everything on the loop has gone on that waits neither for time nor for an event."""
    for _ in range(TURNS):
        await loop.sleep(0)
