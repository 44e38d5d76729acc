"""Runs a blocking function on a thread beside the event loop."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from kafka.errors import KafkaConnectionError
from kafka.future import Future

T = TypeVar("T")


async def run_in_thread(net: Any, function: Callable[[], T]) -> T:
    """Returns or raises what `function` does; it runs on a thread of its own, while kafka-python's loop `net` goes on.

    Raises KafkaConnectionError when no thread can be started.
    """
    done = Future()
    results: list[T] = []
    errors: list[Exception] = []

    def resolve() -> None:
        if errors:
            done.failure(errors[0])
        else:
            done.success(results[0])

    def run() -> None:
        try:
            results.append(function())
        except Exception as error:
            errors.append(error)
        # The loop may have ended meanwhile; then its own error is reported.
        with contextlib.suppress(Exception):
            net.call_soon_threadsafe(resolve)

    try:
        threading.Thread(target=run, name="run-in-thread", daemon=True).start()
    except RuntimeError as error:
        raise KafkaConnectionError(str(error)) from error
    result: T = await done
    return result
