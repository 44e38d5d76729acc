"""Drawn courses of a fence: runs are killed at any request, logins change, and a switchover opens topics."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.clock import SYSTEM
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.acls import (
    create_topic_acls,
    delete_everywhere,
    delete_topic_acls,
    describe_acls,
    describe_topic_acls,
)
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.record.builder import record_body
from twinlog.kafka.record.last_records import KeptRecord, LastRecords
from twinlog.mirror.topics import fence_notes
from twinlog.mirror.topics.acls import AclSync
from twinlog.mirror.topics.writer_fence import WriterFence
from twinlog.model.acls import (
    Acl,
    AclOperation,
    AclPermissionType,
    ResourceType,
    TopicAcl,
    allowed_writers,
)
from twinlog.model.types import TopicName
from twinlog.settings.per_topic import PerTopic

FIRST, SECOND = TOPICS = tuple(TopicName(name) for name in ("first", "second"))
LOGINS = ("ann", "bob")
APP = "User:app"


class Guarded:
    """A cluster with an authorizer: its ACLs, and the notes in its control topic. Kills a run after some requests."""

    def __init__(self) -> None:
        self.acls: set[TopicAcl] = set()
        self.notes: dict[bytes, bytes] = {}
        self.requests_left = 1_000_000
        self.between: Callable[[], None] = lambda: None
        """Called once, before the last request that is left."""

    def count_request(self) -> None:
        self.requests_left -= 1
        if self.requests_left == 0:
            between, self.between = self.between, lambda: None
            self.requests_left = 1_000_000
            between()
        if self.requests_left < 0:
            raise ClusterError("killed")

    def call(self, step: Callable[..., Any], _client: object, argument: Any = None) -> Any:
        self.count_request()
        if step is create_topic_acls:
            self.acls |= set(argument)
            return {}
        if step in (delete_topic_acls, delete_everywhere):
            self.acls -= set(argument)
            return True
        if step is describe_acls:
            return self.described()
        raise AssertionError(step)

    def described(self) -> list[Acl]:
        return [
            Acl(ResourceType.TOPIC, one.topic, one.principal, one.host, one.operation, one.permission, one.pattern)
            for one in self.acls
        ]

    def may_write(self, topic: TopicName, principal: str) -> bool:
        return principal in allowed_writers(self.described(), topic)


class Notes:
    """The control topic, for a reader and for a writer."""

    def __init__(self, guarded: Guarded) -> None:
        self._guarded = guarded

    def read_last(self, last: LastRecords) -> None:
        self._guarded.count_request()
        for key, value in self._guarded.notes.items():
            last[key] = KeptRecord(0, 0, bytes(record_body(key, value)))

    def ensure(self, *, look: bool) -> None:
        pass

    def append(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        for key, value in records:
            self._guarded.count_request()
            self._guarded.notes[key] = value


def fence_of(guarded: Guarded, login: str, group: str | None = None) -> WriterFence:
    """The fence of a process of the flow, perhaps with a group of its own."""
    plain = flow("a", "b")
    if group is not None:
        plain = replace(plain, worker_group_id=group)
    client = replace(plain.producer.client, sasl_username=login)
    settings = replace(
        plain, producer=replace(plain.producer, client=client), fence_writers=True, offsets=PerTopic("identical")
    )
    admin = SimpleNamespace(client=SimpleNamespace(), call=guarded.call, alias="b")
    return WriterFence(settings, cast(ClusterAdmin, admin))


def open_to_all(monkeypatch: pytest.MonkeyPatch) -> Guarded:
    """A cluster that lets the application and the logins of the flow write; fences read and write its notes."""
    made = Guarded()
    made.acls = {
        TopicAcl(topic, principal, "*", AclOperation.WRITE, AclPermissionType.ALLOW)
        for topic in TOPICS
        for principal in (APP, *(f"User:{login}" for login in LOGINS))
    }
    monkeypatch.setattr(fence_notes, "TopicReader", lambda *_, **__: Notes(made))
    monkeypatch.setattr(fence_notes, "CompactedTopic", lambda *_, **__: Notes(made))
    return made


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Guarded:
    return open_to_all(monkeypatch)


def killed(guarded: Guarded, chance: random.Random, step: Callable[[], object]) -> bool:
    """Take a step, which may be killed at any request."""
    guarded.requests_left = chance.randrange(12) if chance.random() < 0.5 else 1_000_000
    try:
        step()
    except ClusterError:
        return True
    finally:
        guarded.requests_left = 1_000_000
    return False


def require_fence(guarded: Guarded, login: str, closed: Collection[TopicName]) -> None:
    """The login of the flow may write to all topics, the application only to topics that are not `closed`."""
    for topic in TOPICS:
        assert guarded.may_write(topic, f"User:{login}")
        assert guarded.may_write(topic, APP) == (topic not in closed)


def test_a_topic_that_left_is_open(guarded: Guarded) -> None:
    """The run before was killed, and had another filter."""
    fence_of(guarded, LOGINS[0]).keep(TOPICS)
    require_fence(guarded, LOGINS[0], TOPICS)
    fence_of(guarded, LOGINS[0]).keep([FIRST])
    require_fence(guarded, LOGINS[0], [FIRST])


def test_processes_with_groups_of_their_own_have_fences_of_their_own(guarded: Guarded) -> None:
    one, other = (fence_of(guarded, LOGINS[0], group) for group in ("one", "other"))
    one.keep([FIRST])
    other.keep([SECOND])
    require_fence(guarded, LOGINS[0], TOPICS)
    one.lift()
    require_fence(guarded, LOGINS[0], [SECOND])
    one.keep([FIRST])
    fence_of(guarded, LOGINS[0]).open_to_producers(TOPICS)
    require_fence(guarded, LOGINS[0], [])
    for fence, topic in ((one, FIRST), (other, SECOND)):
        fence.keep([topic])
    require_fence(guarded, LOGINS[0], [])


def test_a_fence_of_a_killed_run_is_removed_or_named(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    fence_of(guarded, LOGINS[0]).keep(TOPICS)
    call = guarded.call

    def refuse(step: Callable[..., Any], client: object, argument: Any = None) -> Any:
        if step is delete_topic_acls:
            raise RefusedError("cluster b: the login lacks ALTER on the cluster")
        return call(step, client, argument)

    monkeypatch.setattr(guarded, "call", refuse)
    with pytest.raises(RefusedError) as caught:
        fence_of(guarded, LOGINS[0]).lift_earlier()
    assert f"a fence of an earlier run still has DENY WRITE on {FIRST} for User:app" in str(caught.value)
    assert (f"kafka-acls.sh --remove --operation Write --deny-principal User:app --topic {FIRST}") in str(caught.value)
    monkeypatch.setattr(guarded, "call", call)
    fence_of(guarded, LOGINS[0]).lift_earlier()
    require_fence(guarded, LOGINS[0], [])


@pytest.mark.parametrize("expected", [True, False])
def test_unreadable_notes_are_named_only_if_a_fence_is_expected(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, expected: bool
) -> None:
    def refuse() -> None:
        raise RefusedError("cluster b: the login lacks READ on the control topic")

    monkeypatch.setattr(guarded, "count_request", refuse)
    fence = fence_of(guarded, LOGINS[0])
    if not expected:
        fence._expected = False
        fence.lift_earlier()
        return
    with pytest.raises(RefusedError):
        fence.lift_earlier()


@pytest.mark.parametrize("request_number", range(1, 12))
def test_a_switchover_opens_topics_during_a_turn(guarded: Guarded, request_number: int) -> None:
    fence, switchover = (fence_of(guarded, LOGINS[0]) for _ in range(2))
    switchover.expect_copies(TOPICS)
    met: list[bool] = []

    def open_topics() -> None:
        switchover.open_to_producers([FIRST])
        met.append(guarded.may_write(FIRST, APP))

    guarded.between, guarded.requests_left = open_topics, request_number
    fence.keep(TOPICS)
    if not met:
        guarded.requests_left = 1_000_000
        open_topics()
    assert met == [True]
    require_fence(guarded, LOGINS[0], [SECOND])
    fence.lift()
    require_fence(guarded, LOGINS[0], [])


@pytest.mark.parametrize("seed", range(200))
def test_a_drawn_course(guarded: Guarded, seed: int) -> None:
    chance = random.Random(seed)
    before = set(guarded.acls)
    opened: set[TopicName] = set()
    for _ in range(20):
        login = chance.choice(LOGINS)
        fence = fence_of(guarded, login)
        match chance.randrange(4):
            case 0 | 1:
                if not killed(guarded, chance, lambda fence=fence: fence.keep(TOPICS)):  # type: ignore[misc]
                    require_fence(guarded, login, set(TOPICS) - opened)
            case 2:
                if not killed(guarded, chance, fence.lift):
                    assert guarded.acls == before
            case 3:
                topic = chance.choice(TOPICS)
                fence.open_to_producers([topic])
                assert guarded.may_write(topic, APP)
                opened.add(topic)
                if chance.random() < 0.5:
                    fence.expect_copies([topic])
                    opened.discard(topic)
    fence_of(guarded, LOGINS[0]).lift()
    assert guarded.acls == before


@pytest.mark.parametrize("may_read", [True, False])
def test_a_flow_from_the_target_leaves_the_fence_out(guarded: Guarded, may_read: bool) -> None:
    """In a chain of flows nobody would lift the fence of the first flow on the last cluster."""
    fence_of(guarded, LOGINS[0]).keep(TOPICS)
    by_hand = TopicAcl(FIRST, "User:visitor", "*", AclOperation.WRITE, AclPermissionType.DENY)
    guarded.acls.add(by_hand)
    there: set[TopicAcl] = set()

    def call_last(step: Callable[..., Any], _client: object, argument: Any = ()) -> Any:
        there.update(argument if step is create_topic_acls else ())
        return {} if step is create_topic_acls else list(there)

    def call_first(step: Callable[..., Any], _client: object) -> list[TopicAcl]:
        assert step is describe_topic_acls
        return list(guarded.acls)

    def names() -> list[str]:
        if not may_read:
            raise RefusedError("cluster b: User:carol lacks READ on topic mm2-twinlog-control.a.internal")
        return ["mm2-twinlog-control.a.internal", FIRST]

    clients = {"client": SimpleNamespace(), "clock": SYSTEM}
    source = SimpleNamespace(**clients, call=call_first, topics=names, alias="b")
    target = SimpleNamespace(**clients, call=call_last, alias="c")
    sync = AclSync(flow("b", "c"), cast(ClusterAdmin, source), cast(ClusterAdmin, target))
    for _ in range(2):
        sync.run()
    carried = {acl.principal for acl in there if acl.permission == AclPermissionType.DENY}
    fenced = {APP, *(f"User:{login}" for login in LOGINS[1:])}
    assert carried == {"User:visitor"} | (set() if may_read else fenced)
