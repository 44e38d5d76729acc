"""Whatever becomes of workers and requests: no connector is lost or runs twice, and all end as was acknowledged."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import pytest

from harness.virtual.workers import VirtualWorker, World, virtual_workers
from tests.property.worker_campaign import NAMES, WORKER, WORKER_TEXT, Campaign, config_of, offset_of
from twinlog.config.properties import parse_properties
from twinlog.config.worker import worker_of
from twinlog.connect import leader_duties
from twinlog.connect.herder import Herder
from twinlog.errors import ClusterError, RequestError
from twinlog.worker.connectors.model import ConnectorName, ConnectorState, Health, TargetState


@pytest.mark.parametrize("number", range(12))
def test_what_runs_is_what_was_acknowledged(chance: random.Random, number: int) -> None:
    with virtual_workers(WORKER, chance.randrange(1 << 30)) as world:
        campaign = Campaign(world, chance)
        for _ in range(3):
            world.start_worker()
        world.advance(10.0)
        for _ in range(4):
            for _ in range(15):
                (campaign.request if chance.random() < 0.7 else campaign.happen)()
                world.advance(chance.choice((0.0, 0.4, 2.0)))
            campaign.settle()
            campaign.verify()
        assert campaign.acknowledged > campaign.asked / 8


def putting(name: ConnectorName) -> Callable[[Herder], object]:
    return lambda herder: herder.put(name, config_of(name, 1))


def running(world: World) -> Sequence[tuple[str, VirtualWorker]]:
    return [(one.name, one.worker) for one in world.running]


def test_a_killed_workers_connectors_run_elsewhere_within_ten_seconds(chance: random.Random) -> None:
    with virtual_workers(WORKER, 1) as world:
        first, second = world.start_worker(), world.start_worker()
        world.advance(5.0)
        for name in NAMES:
            world.ask(first, putting(name))
        world.advance(10.0)
        assert {worker for _, worker in running(world)} == {first, second}
        killed = chance.choice((first, second))
        killed.kill()
        world.advance(10.0)
        assert sorted(name for name, _ in running(world)) == sorted(NAMES)
        assert killed not in [worker for _, worker in running(world)]


def test_a_clean_end_hands_over_at_once(chance: random.Random) -> None:
    with virtual_workers(WORKER, 1) as world:
        first, second = world.start_worker(), world.start_worker()
        world.advance(5.0)
        for name in NAMES:
            world.ask(second, putting(name))
        world.advance(10.0)
        stopped, left = chance.sample((first, second), 2)
        stopped.stop()
        world.advance(1.0)
        assert sorted(running(world), key=str) == sorted(((name, left) for name in NAMES), key=str)


def test_a_connector_that_began_in_an_unfinished_turn_is_given_to_nobody_else() -> None:
    """Two rebalances pass while a turn waits for a broker: the first takes a connector away, the second assigns it."""
    with virtual_workers(WORKER, 1) as world:
        first = world.start_worker()
        world.advance(5.0)
        for name in NAMES[::2]:
            world.ask(first, putting(name))
        first.stall_s = 8.0
        later: list[VirtualWorker] = []
        for seconds in (1.0, 4.0):
            world.later.append((world.clock.now + seconds, lambda: later.append(world.start_worker())))
        world.advance(7.0)
        assert len(later) == 2
        assert first.stall_s == 0.0, "the turn that began the connectors has waited"
        world.advance(40.0)
        assert sorted(name for name, _ in running(world)) == sorted(NAMES[::2])
        assert {worker for _, worker in running(world)} == {first, *later}


def test_a_secret_counts_as_it_is_where_a_connector_begins(tmp_path: Path) -> None:
    """A worker that takes a connector over has known it for long, by the secret of that time."""
    secret = tmp_path / "secret"
    secret.write_text("password = old")
    provider = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    text = WORKER_TEXT + "".join(f"{key} = {value}\n" for key, value in provider.items())
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    config = {
        **config_of(NAMES[0], 1),
        "source.cluster.security.protocol": "SASL_PLAINTEXT",
        "source.cluster.sasl.mechanism": "PLAIN",
        "source.cluster.sasl.jaas.config": f'{login} username="u" password="${{file:{secret}:password}}";',
    }
    with virtual_workers(worker_of(parse_properties(text, "w"), "w"), 1) as world:
        first, second = world.start_worker(), world.start_worker()
        world.advance(5.0)
        world.ask(first, lambda herder: herder.put(NAMES[0], config))
        world.advance(10.0)

        def passwords() -> list[str]:
            return [one.settings.source_admin.client.sasl_password for one in world.running]

        assert passwords() == ["old"]
        secret.write_text("password = new")
        world.advance(10.0)
        assert passwords() == ["old"]
        (running_on,) = (one.worker for one in world.running)
        running_on.kill()
        world.advance(10.0)
        assert passwords() == ["new"]
        # Its only worker is removed from the group, and what ran begins anew.
        secret.write_text("password = newer")
        (left,) = {first, second} - {running_on}
        world.group.leave(left.member)
        world.advance(10.0)
        assert passwords() == ["newer"]


def test_a_worker_that_does_not_hear_from_its_group_is_not_healthy() -> None:
    with virtual_workers(WORKER, 1) as world:
        worker = world.start_worker()
        world.advance(5.0)
        assert worker.herder.health().health is Health.HEALTHY
        worker.frozen = True
        world.advance(10.0)
        found = worker.herder.health()
        assert found.health is Health.UNHEALTHY
        assert "coordinator" in found.message
        worker.frozen = False
        world.advance(10.0)
        assert worker.herder.health().health is Health.HEALTHY


def test_states_come_back_when_their_topic_was_deleted(caplog: pytest.LogCaptureFixture) -> None:
    with virtual_workers(WORKER, 1) as world:
        workers = [world.start_worker(), world.start_worker()]
        world.advance(5.0)
        for name in NAMES:
            world.ask(workers[0], putting(name))
        world.advance(10.0)
        del world.topics["states"]
        world.advance(10.0)
        workers.append(world.start_worker())
        world.advance(20.0)
        for worker in workers:
            found = {worker.herder.status(name).connector.state for name in NAMES}
            assert found == {ConnectorState.RUNNING}
        # Both workers may have noticed.
        told = [text for text in caplog.messages if "topic states does not exist any more" in text]
        assert 1 <= len(told) <= 2


@pytest.mark.parametrize("first_to_notice", ["the leader", "a worker that starts"])
def test_a_deleted_config_topic_is_recreated_with_what_the_leader_knows(
    first_to_notice: str, caplog: pytest.LogCaptureFixture
) -> None:
    with virtual_workers(WORKER, 1) as world:
        first, second = world.start_worker(), world.start_worker()
        world.advance(5.0)
        for name in NAMES:
            world.ask(first, putting(name))
        world.ask(first, lambda herder: herder.set_target_state(NAMES[0], TargetState.PAUSED))
        world.ask(first, lambda herder: herder.delete(NAMES[1]))
        world.advance(10.0)
        before = first.herder._state.query_state(lambda cluster, _: dict(cluster.connectors))
        ran = sorted(running(world))
        caplog.clear()
        del world.topics["configs"]
        if first_to_notice != "the leader":
            # It makes the topic anew, empty.
            world.start_worker()
        world.advance(30.0)
        (told,) = (text for text in caplog.messages if "has written those that it knows again" in text)
        assert all(name in told for name in before)
        assert NAMES[1] not in told
        if first_to_notice == "the leader":
            assert sorted(running(world)) == ran, "nothing of what ran was disturbed"
        # Whoever comes now knows all of it, and so does who leads next.
        third = world.start_worker()
        first.stop()
        second.stop()
        world.advance(30.0)
        after = third.herder._state.query_state(lambda cluster, _: dict(cluster.connectors))
        assert {name: one.config for name, one in after.items()} == {name: one.config for name, one in before.items()}
        assert third.herder._state.query_state(lambda cluster, _: cluster.target_state(NAMES[0])) is TargetState.PAUSED
        assert sorted(name for name, _ in running(world)) == sorted(before.keys() - {NAMES[0]})


def test_failures_are_seen_and_shown_while_the_config_topic_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    name = NAMES[0]

    def away() -> None:
        raise ClusterError("it does not answer")

    with virtual_workers(WORKER, 1) as world:
        worker = world.start_worker()
        world.advance(5.0)
        world.ask(worker, putting(name))
        world.advance(10.0)
        monkeypatch.setattr(worker.herder._state, "read", away)
        (runs,) = world.running
        runs.failure = "the group was refused"
        world.advance(10.0)
        (task,) = worker.herder.status(name).tasks.values()
        assert (task.state, task.trace) == (ConnectorState.FAILED, "TW-FLOW-01: the group was refused")


def test_offsets_are_written_only_once_everything_has_ended() -> None:
    name = NAMES[1]
    with virtual_workers(WORKER, 1) as world:
        worker = world.start_worker()
        world.advance(5.0)
        world.ask(worker, putting(name))
        world.advance(5.0)
        offset = [offset_of(name)]
        with pytest.raises(RequestError) as refused:
            world.ask(worker, lambda herder: herder.alter_offsets(name, offset))
        assert refused.value.status == 400
        world.ask(worker, lambda herder: herder.set_target_state(name, TargetState.STOPPED))
        assert running(world)
        world.ask(worker, lambda herder: herder.alter_offsets(name, offset))
        assert not running(world)
        assert worker.herder.offsets(name) == offset


def test_a_request_to_fence_stops_what_earlier_tasks_left_and_nothing_that_runs() -> None:
    name, fenced = NAMES[0], []
    with (
        virtual_workers(WORKER, 1) as world,
        mock.patch.object(leader_duties, "fence_zombies", lambda settings, producers, _: fenced.append(producers)),
    ):
        worker = world.start_worker()
        world.advance(5.0)
        with pytest.raises(RequestError) as refused:
            world.ask(worker, lambda herder: herder.fence_tasks(name))
        assert refused.value.status == 404
        world.ask(worker, putting(name))
        world.advance(10.0)
        state = worker.herder._state

        def fence() -> int | None:
            world.ask(worker, lambda herder: herder.fence_tasks(name))
            return state.query_state(lambda cluster, _: cluster.fenced_tasks(name))

        assert (fence(), fenced) == (None, [])
        world.ask(worker, lambda herder: herder.set_target_state(name, TargetState.PAUSED))
        world.advance(10.0)
        assert (fence(), fenced) == (1, [])
        # Three tasks of Kafka's before, one now.
        state.await_fencing(name, 3)
        assert (fence(), fenced) == (1, [3])
        assert (fence(), fenced) == (1, [3])
