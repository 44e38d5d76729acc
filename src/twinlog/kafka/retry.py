"""The retries of failed calls: a function for coroutines, a function for threads, and the table of policies.

A call whose error may pass (`TwinlogError.retriable`) is made again after a pause. A `RetryPolicy` has the pauses and
the time limit; the policies of the project are listed at the end of this file, each with the reason of its values::

    ends = await retry(loop, COPIER_STEP, lambda: client.list_offsets(partitions, LATEST), stopped=lambda: self.stopped)

A loop with more than one call, as the fetches of a broker, takes its pauses from `policy.backoff()`. A pause between
successful calls, as between two looks at a topic, is an interval and no policy.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from twinlog.clock import Clock
from twinlog.errors import TwinlogError
from twinlog.log_once import AGAIN_S, LogOnce
from twinlog.settings.flow import ClientSettings

if TYPE_CHECKING:
    from twinlog.kafka.net.loop import Loop

T = TypeVar("T")

log = logging.getLogger(__name__)

TROUBLED_S = 10.0
"""An error is logged as a warning after so many seconds; a shorter error is usual, as the restart of a broker."""

KAFKA_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The pauses between the tries of a failed call, and the time limit of the call.

    The first pause has `first_s` seconds, each further pause is twice as long, up to `longest_s` seconds. When
    `longest_s` is not above `first_s`, every pause has `longest_s` seconds, as in Kafka. `jitter` is the share by which
    a pause is longer or shorter by chance. An error is raised when it comes later than `patience_s` seconds after the
    first try, and when it comes from the try with number `tries`. With `warns`, an error that lasts for `TROUBLED_S`
    seconds is logged, and again every minute.
    """

    first_s: float
    longest_s: float
    jitter: float = 0.0
    patience_s: float = inf
    tries: float = inf
    warns: bool = False

    @classmethod
    def of(cls, settings: ClientSettings, patience_s: float = inf, *, warns: bool = False) -> RetryPolicy:
        """The policy of a client: pauses from `retry.backoff.ms` to `retry.backoff.max.ms` (KIP-580)."""
        first_s, longest_s = settings.retry_backoff_ms / 1000, settings.retry_backoff_max_ms / 1000
        return cls(first_s, longest_s, KAFKA_JITTER, patience_s, warns=warns)

    def with_longest(self, longest_s: float) -> RetryPolicy:
        """The same policy with another longest pause."""
        return replace(self, longest_s=longest_s)

    def pause_s(self, failures: int, chance: float | None = None) -> float:
        """Seconds to wait after the `failures`th failure in a row.

        `chance`, from 0 to 1, is the place of the pause within the jitter; None draws a random place.

        >>> RetryPolicy(0.5, 0.1).pause_s(1)
        0.1
        """
        if self.longest_s <= self.first_s:
            return self.longest_s
        # 63 doublings exceed any limit.
        grown = min(max(self.first_s, 0.001) * 2.0 ** min(failures - 1, 63), self.longest_s)
        if not self.jitter:
            return grown
        spread = 1 - self.jitter + 2 * self.jitter * (random.random() if chance is None else chance)
        return min(grown * spread, self.longest_s)

    def backoff(self) -> Backoff:
        """The pauses of an operation that begins now."""
        return Backoff(self)


class Backoff:
    """Counts the failures in a row of an operation (Kafka class ExponentialBackoff)."""

    __slots__ = ("_failures", "_policy")

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._failures = 0

    @classmethod
    def of(cls, settings: ClientSettings) -> Backoff:
        """Begins with pauses of `retry.backoff.ms`; the longest pause is `retry.backoff.max.ms`."""
        return cls(RetryPolicy.of(settings))

    def count_failure(self) -> float:
        """Count a failure; returns the seconds to wait."""
        self._failures += 1
        return self._policy.pause_s(self._failures)

    def reset_failures(self) -> None:
        """Reset the count."""
        self._failures = 0


class _Tries:
    """The tries of a call by a policy."""

    def __init__(self, policy: RetryPolicy, clock: Clock, failed: Callable[[TwinlogError], object] | None) -> None:
        self._policy = policy
        self._now = clock.monotonic
        self._failed = failed
        self._failures = 0
        self._give_up_at = clock.monotonic() + policy.patience_s
        self._logged = LogOnce(clock) if policy.warns else None

    def pause_s(self, error: TwinlogError) -> float | None:
        """Seconds to wait after a failure; None when the error is to be raised."""
        self._failures += 1
        policy = self._policy
        if not error.retriable or self._failures >= policy.tries or self._now() > self._give_up_at:
            return None
        if self._logged is not None and self._logged.is_due(self, TROUBLED_S, AGAIN_S):
            log.warning("%s; it is tried again for %g s in all", error, policy.patience_s)
        if self._failed is not None:
            self._failed(error)
        return policy.pause_s(self._failures)


async def retry(
    loop: Loop,
    policy: RetryPolicy,
    step: Callable[[], Coroutine[Any, Any, T]],
    *,
    stopped: Callable[[], bool] = lambda: False,
    failed: Callable[[TwinlogError], object] | None = None,
) -> T:
    """Run `step` until it returns, and return its result.

    Raises the error of `step` when the error is permanent, as RefusedError is, when the policy ends the tries, and when
    `stopped()` is true after a failure. `failed` gets each other error before the pause.
    """
    tries = _Tries(policy, loop.clock, failed)
    while True:
        try:
            return await step()
        except TwinlogError as error:
            if stopped() or (pause_s := tries.pause_s(error)) is None:
                raise
        await loop.sleep(pause_s)


def retry_in_thread(
    clock: Clock,
    policy: RetryPolicy,
    step: Callable[[], T],
    *,
    stopping: threading.Event | None = None,
    failed: Callable[[TwinlogError], object] | None = None,
) -> T:
    """Run `step` on this thread until it returns, and return its result; see `retry`.

    `stopping` ends a pause at once, and then the last error is raised. A first try is made in any case.
    """
    tries = _Tries(policy, clock, failed)
    while True:
        try:
            return step()
        except TwinlogError as error:
            if (pause_s := tries.pause_s(error)) is None or (stopping is not None and clock.wait(stopping, pause_s)):
                raise
        if stopping is None:
            clock.sleep(pause_s)


# The table of policies. Pauses are seconds.

COPIER_STEP = RetryPolicy(0.2, 0.2)
"""The steps of a copier for its partitions: records wait meanwhile, and a broker that restarts is back soon."""

PARTITION_RECOVERY = RetryPolicy(0.2, 5.0, KAFKA_JITTER)
"""The recovery of a partition after its source or its target lost records: many partitions recover at once."""

REFUSED_TOPIC = RetryPolicy(10.0, 10.0)
"""A remote topic that the target refuses to create or to grow: an administrator has to act."""

BUSY_CONTROLLER = RetryPolicy(1.0, 30.0, KAFKA_JITTER)
"""A remote topic on a busy target: a quota throttles the controller (KIP-599), or the controller moves."""
