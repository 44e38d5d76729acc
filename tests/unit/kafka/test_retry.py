"""Failed calls are made again by their policy: growing pauses, time limits, and errors that no try can mend."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import virtual_loop
from twinlog.clock import SYSTEM
from twinlog.errors import ClusterError, EngineLostError, RefusedError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.retry import Backoff, RetryPolicy, retry, retry_in_thread, retry_until_stopped
from twinlog.settings.client import ClientSettings

MS = st.integers(0, 2**63 - 1)


def kafka_policy(initial_ms: int, most_ms: int) -> RetryPolicy:
    return RetryPolicy.of(ClientSettings("host:1", retry_backoff_ms=initial_ms, retry_backoff_max_ms=most_ms))


@given(st.integers(1, 10_000), MS, MS)
def test_a_pause_is_within_its_bounds(failures: int, initial_ms: int, most_ms: int) -> None:
    pause = kafka_policy(initial_ms, most_ms).pause_s(failures)
    assert 0 <= pause <= most_ms / 1000
    assert pause >= min(0.8 * initial_ms, most_ms) / 1000 * 0.999


def test_it_doubles_and_begins_anew() -> None:
    backoff = Backoff(kafka_policy(100, 1000))
    for middle in (0.1, 0.2, 0.4, 0.8):
        assert 0.8 * middle <= backoff.count_failure() <= 1.2 * middle
    assert 0.8 <= backoff.count_failure() <= 1.0
    backoff.reset_failures()
    assert backoff.count_failure() <= 0.12


def test_a_first_pause_above_the_most_is_the_most_every_time() -> None:
    assert {kafka_policy(500, 200).pause_s(failures) for failures in range(1, 9)} == {0.2}


@pytest.mark.parametrize(("down_s", "said"), [(3.0, 0), (50.0, 1), (100.0, 2)])
def test_what_lasts_is_said_now_and_then(down_s: float, said: int, caplog: pytest.LogCaptureFixture) -> None:
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "west")
        client = ClusterClient(loop, "west", ClientSettings(cluster.bootstrap))
        began = cluster.now()

        async def step() -> str:
            if cluster.now() - began < down_s:
                raise ClusterError("cluster west: no coordinator")
            return "done"

        assert loop.run(retry, loop, RetryPolicy.of(client.settings, 120, warns=True), step) == "done"
        assert [record.getMessage() for record in caplog.records] == [
            "TW-NET-11: cluster west: no coordinator; it is tried again for 120 s in all"
        ] * said
        client.close()


@pytest.mark.parametrize(
    ("policy", "tries"),
    [(RetryPolicy(1.0, 1.0, patience_s=4.5), 6), (RetryPolicy(1.0, 8.0, tries=3), 3), (RetryPolicy(1.0, 8.0), 20)],
)
def test_a_policy_ends_the_tries(policy: RetryPolicy, tries: int) -> None:
    with virtual_loop(1) as loop:
        errors: list[TwinlogError] = []
        seen: list[TwinlogError] = []

        async def step() -> str:
            errors.append(ClusterError(f"{len(errors)}"))
            raise errors[-1]

        with pytest.raises(ClusterError) as raised:
            loop.run(lambda: retry(loop, policy, step, stopped=lambda: len(errors) == 20, failed=seen.append))
        assert len(errors) == tries
        assert raised.value is errors[-1]
        # Only an error that is followed by a further try is noted.
        assert seen == errors[:-1]


@pytest.mark.parametrize(("error", "tries"), [(RefusedError("no"), 1), (EngineLostError("gone"), 3), (KeyError(), 1)])
def test_only_an_error_that_may_pass_is_worth_a_try(error: Exception, tries: int) -> None:
    with virtual_loop(1) as loop:
        made: list[float] = []

        async def step() -> None:
            made.append(loop.clock.monotonic())
            raise error

        with pytest.raises(type(error)):
            loop.run(retry, loop, RetryPolicy(1.0, 8.0, tries=3), step)
        assert [at - made[0] for at in made] == pytest.approx([0.0, 1.0, 3.0][:tries])


def test_a_thread_ends_its_pause_when_it_is_to_stop() -> None:
    stopping = threading.Event()
    tries: list[int] = []

    def step() -> None:
        tries.append(1)
        stopping.set()
        raise ClusterError("silent")

    assert not retry_until_stopped(SYSTEM, RetryPolicy(600.0, 600.0), step, stopping)
    assert len(tries) == 1
    assert not retry_until_stopped(SYSTEM, RetryPolicy(600.0, 600.0), step, stopping)
    assert len(tries) == 1


def test_a_thread_returns_the_result_of_a_later_try() -> None:
    results = iter([None, None, "done"])
    noted: list[str] = []

    def step() -> str:
        result = next(results)
        if result is None:
            raise ClusterError("silent")
        return result

    policy = RetryPolicy(0.001, 0.002)
    assert retry_in_thread(SYSTEM, policy, step, failed=lambda error: noted.append(str(error))) == "done"
    assert noted == ["silent", "silent"]
