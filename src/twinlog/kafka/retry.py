"""The retries of failed calls: functions for coroutines and for threads, and the table of policies.

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

from twinlog.clock import LONG_AGO, Clock
from twinlog.errors import RefusedError, TwinlogError
from twinlog.errors.message_ids import id_of
from twinlog.process.log_once import AGAIN_S, LogOnce
from twinlog.settings.client import ClientSettings

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
    seconds is logged, and again every minute. With `refusals` a call is made again after a refusal, too: a permission
    may be granted meanwhile.
    """

    first_s: float
    longest_s: float
    jitter: float = 0.0
    patience_s: float = inf
    tries: float = inf
    warns: bool = False
    refusals: bool = False

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


class GrowingRest:
    """The rest before a lasting condition is looked at again: a tenth of the time for which the condition has lasted.

    Examples are a missing topic and a group in use. The rest is `longest_s` seconds at most. `now` is in monotonic
    seconds.
    """

    __slots__ = ("_again_at", "_longest_s", "_since")

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._since: float | None = None
        self._again_at = LONG_AGO

    def is_on(self, now: float) -> bool:
        """Whether the condition counts as unchanged without a look."""
        return now < self._again_at

    def extend(self, now: float) -> None:
        """A look at `now` has found the condition."""
        self._since = now if self._since is None else self._since
        self._again_at = now + min(self._longest_s, 0.1 * (now - self._since))

    def end(self) -> None:
        """The condition is over, or another cluster is asked."""
        self._since, self._again_at = None, LONG_AGO


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
        worth = error.retriable or (policy.refusals and isinstance(error, RefusedError))
        if not worth or self._failures >= policy.tries or self._now() > self._give_up_at:
            return None
        if self._logged is not None and self._logged.is_due(self, TROUBLED_S, AGAIN_S):
            log.warning(
                "%s: %s; it is tried again for %g s in all", id_of(error, "TW-NET-11"), error, policy.patience_s
            )
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
    `stopped()` is true after a failure. `failed` gets each other error before the pause; an error that it raises is
    raised.
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
    failed: Callable[[TwinlogError], object] | None = None,
) -> T:
    """Run `step` on this thread until it returns, and return its result; raises as `retry` does."""
    tries = _Tries(policy, clock, failed)
    while True:
        try:
            return step()
        except TwinlogError as error:
            if (pause_s := tries.pause_s(error)) is None:
                raise
        clock.sleep(pause_s)


def retry_until_stopped(
    clock: Clock,
    policy: RetryPolicy,
    step: Callable[[], object],
    stopping: threading.Event,
    *,
    failed: Callable[[TwinlogError], object] | None = None,
) -> bool:
    """Run `step` on this thread until it returns; False once `stopping` is set, which ends a pause at once.

    Raises as `retry` does.
    """
    tries = _Tries(policy, clock, failed)
    while not stopping.is_set():
        try:
            step()
        except TwinlogError as error:
            if (pause_s := tries.pause_s(error)) is None:
                raise
            clock.wait(stopping, pause_s)
        else:
            return True
    return False


# The table of policies. Pauses are seconds.

COPIER_STEP = RetryPolicy(0.2, 0.2)
"""The steps of a copier for its partitions: records wait meanwhile, and a broker that restarts is back soon."""

PARTITION_RECOVERY = RetryPolicy(0.2, 5.0, KAFKA_JITTER)
"""The recovery of a partition after its source or its target lost records: many partitions recover at once."""

OFFSET_STEP = RetryPolicy(0.1, 2.0, KAFKA_JITTER)
"""A marker or an aborted record at an offset of the source: all later records of the partition wait for it."""

PROOF_READING = RetryPolicy(0.5, 10.0)
"""The prover reads a remote partition again that its broker refuses, or whose log has become shorter."""

OFFSET_SYNCS = RetryPolicy(0.5, 10.0)
"""The offset syncs of a copier: newer syncs replace waiting syncs, and no record waits for them."""

TRANSACTION_STEP = RetryPolicy(0.1, 0.1)
"""A partition that joins the open transaction, and the marker of the last transaction: all records wait for them."""

LATE_PARTITION = RetryPolicy(2.0, 60.0)
"""A partition whose appends stay unacknowledged until their transaction is aborted: each try holds up the other
partitions of the copier for many seconds."""

PREVIOUS_TRANSACTION = RetryPolicy(0.003, 0.1, tries=40)
"""A request about a transaction while the coordinator still writes the markers of the previous transaction."""

REFUSED = RetryPolicy(10.0, 10.0)
"""A call that a cluster refuses while a flow runs: an administrator has to act, and waits for the effect."""

BUSY_CONTROLLER = RetryPolicy(1.0, 30.0, KAFKA_JITTER)
"""A remote topic on a busy target: a quota throttles the controller (KIP-599), or the controller moves."""

FLOW_STEP = RetryPolicy(1.0, 1.0)
"""The steps before a flow copies, for any duration of an outage: the flow begins soon after the outage."""

PERIODIC_JOB = RetryPolicy(0.5, 30.0)
"""A job of a flow, as heartbeats: a short fault costs half a second, and a long fault few requests."""

GROUP_COMMIT = RetryPolicy(0.5, 10.0)
"""A refused commit of a group; a longer interval of the flow's commits is the longest pause."""

MOVING_COORDINATOR = RetryPolicy(0.2, 0.2, patience_s=5.0)
"""A question about groups whose coordinator moves or loads: a coordinator takes seconds for this."""

MOVING_LEADER = RetryPolicy(0.1, 0.1, patience_s=2.0)
"""A question for the offsets of partitions whose leader is about to begin or to end."""

TOPIC_READING = RetryPolicy(0.2, 0.2)
"""The next page of a topic, within the time that the reader has."""

TOPIC_LEADER = RetryPolicy(0.1, 1.0)
"""The look-up of the leaders of new topics, and of one of twinlog's own topics within the time that the writer has: a
leader comes within 0.1 s mostly, and an overloaded cluster is asked less often."""

ELECTION = RetryPolicy(0.2, 0.2)
"""The part of a process in the election for a flow: a leader that is late in its group stops the flow."""

GROUP_MEMBER = RetryPolicy(0.5, 0.5)
"""The part of a Connect worker in its group."""

BRIDGE_START = RetryPolicy(60.0, 60.0)
"""The process of the bridge, after it failed: Spark copies meanwhile, or is about to."""

FEW_THREADS = RetryPolicy(2.0, 2.0)
"""A flow that fails to begin for lack of threads: the limit of the host or container is temporary."""

READ_AHEAD = RetryPolicy(10.0, 10.0)
"""The reading of a flow that another process runs, while threads or files are lacking: it only saves time later."""

WORKER_TOPICS = RetryPolicy(1.0, 1.0, refusals=True)
"""The topics of a Connect worker that starts: the worker waits for its cluster, and for its permissions."""

CONNECTOR_POSITIONS = RetryPolicy(1.0, 1.0)
"""The copy of a connector's positions to the connector's own topic: the connector waits for it."""

TASK_CONFIGS = RetryPolicy(2.0, 2.0)
"""The configurations of tasks that a worker asks its leader to write: the topic takes a moment to bring them back."""

LEADER_FENCING = RetryPolicy(5.0, 5.0)
"""The claim of a group's config topic: it protects against a suspended leader, and no step waits for it."""

OFFSETS_ANNOTATION = RetryPolicy(5.0, 5.0)
"""The action that an annotation of Strimzi's resource asks for: an operator stops the connector meanwhile."""

SWITCHOVER_STEP = RetryPolicy(1.0, 1.0, patience_s=60.0)
"""A part of a switchover's step: producers may wait for it, and an operator decides after a minute."""

SWITCHOVER_GROUPS = RetryPolicy(0.5, 0.5, tries=20)
"""The offsets of a switchover's groups, until coordinators have moved and transactions have ended."""

CONNECT_REST = RetryPolicy(0.5, 5.0, patience_s=60.0)
"""A request to the REST API of a Connect worker that starts, or whose group rebalances."""

# The time limits of a first connection, in seconds; a client connects again by itself.

COMMAND_CONNECT_S = 15.0
"""A command that compares, plans or changes: its result is worth the restart of a broker."""

LOOK_CONNECT_S = 10.0
"""A command that shows the present state or asks a running process: the operator sees soon that a cluster is silent."""

MEMBER_CONNECT_S = 5.0
"""A member of a group, and a check of the source: the other members of the group wait for it."""

TASK_CONNECT_S = 30.0
"""A task of Spark, and the Python API: a failed task costs a further attempt of Spark."""
