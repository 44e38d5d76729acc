"""Runs what blocks beside the event loop."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from kafka.errors import KafkaConnectionError
from kafka.future import Future

T = TypeVar("T")


async def aside(net: Any, function: Callable[[], T]) -> T:
    """What `function` returns or raises; it runs on a thread of its own, while kafka-python's loop `net` goes on.

    Raises KafkaConnectionError when no thread can be started.
    """
    done = Future()
    results: list[T] = []
    errors: list[Exception] = []

    def tell() -> None:
        if errors:
            done.failure(errors[0])
        else:
            done.success(results[0])

    def run() -> None:
        try:
            results.append(function())
        except Exception as error:
            errors.append(error)
        # A loop that has ended meanwhile says why; nobody waits any more.
        with contextlib.suppress(Exception):
            net.call_soon_threadsafe(tell)

    try:
        threading.Thread(target=run, name="aside", daemon=True).start()
    except RuntimeError as error:
        raise KafkaConnectionError(str(error)) from error
    result: T = await done
    return result
