"""The readers of fence notes decode a note by one rule, and leave out the malformed notes of other programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.mirror.topics.test_fence_courses import FIRST, SECOND
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.clock import SYSTEM
from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.record.builder import record_body
from twinlog.kafka.record.last_records import KeptRecord, LastRecords
from twinlog.mirror.topics import fence_notes
from twinlog.mirror.topics.fence_notes import AllFenceNotes, FenceNotes, FenceOwner, decode_fence, fences_on
from twinlog.model.acls import AclOperation, AclPermissionType, TopicAcl, acls_data
from twinlog.model.topic_names import SWITCHOVERS
from twinlog.model.types import TopicName

FLOW = flow("a", "b")
CONTROL = TopicName("mm2-twinlog-control.a.internal")
DENY, OTHER = (
    TopicAcl(topic, "User:app", "*", AclOperation.WRITE, AclPermissionType.DENY) for topic in (FIRST, SECOND)
)
KEY = json.dumps(["fence", FLOW.name, FIRST], separators=(",", ":")).encode()
BAD = json.dumps(["fence", FLOW.name, SECOND], separators=(",", ":")).encode()
GOOD = json.dumps({"acls": acls_data([DENY]), "group": FLOW.group_id}).encode()
MALFORMED = [
    b"{",
    b"[" * 100_000,
    b'{"acls": 7}',
    b'{"acls": [7]}',
    b'{"acls": [{"topic": "t"}]}',
    json.dumps({"acls": [{**acls_data([OTHER])[0], "principal": []}]}).encode(),
]


class Topics:
    """A cluster with topics of notes; a login may lack READ on a topic."""

    alias = "b"
    clock = SYSTEM

    def __init__(self, notes: Mapping[TopicName, Mapping[bytes, bytes]], refused: TopicName | None = None) -> None:
        self.notes = notes
        self.refused = refused
        self.read: list[TopicName] = []

    def topics(self) -> list[TopicName]:
        return [FIRST, *self.notes]

    def reader(self, _cluster: object, topic: TopicName, **_: Any) -> SimpleNamespace:
        def read_last(last: LastRecords) -> None:
            self.read.append(topic)
            if topic == self.refused:
                raise RefusedError(f"READ on {topic} is missing")
            for key, value in self.notes[topic].items():
                last[key] = KeptRecord(0, 0, bytes(record_body(key, value)))

        return SimpleNamespace(read_last=read_last)


def cluster_of(
    monkeypatch: pytest.MonkeyPatch,
    notes: Mapping[TopicName, Mapping[bytes, bytes]],
    refused: TopicName | None = None,
) -> tuple[ClusterAdmin, Topics]:
    found = Topics(notes, refused)
    monkeypatch.setattr(fence_notes, "TopicReader", found.reader)
    monkeypatch.setattr(fence_notes, "CompactedTopic", lambda *_, **__: None)
    return cast(ClusterAdmin, found), found


@pytest.mark.parametrize("malformed", MALFORMED)
def test_all_readers_leave_out_a_malformed_note(monkeypatch: pytest.MonkeyPatch, malformed: bytes) -> None:
    journal = {b'["a->b","","fenced",""]': malformed}
    cluster, _ = cluster_of(monkeypatch, {CONTROL: {BAD: malformed, KEY: GOOD}, SWITCHOVERS: journal})
    assert fences_on(cluster) == {DENY}
    found = AllFenceNotes(cluster).read()
    assert found[FenceOwner(FLOW.name, FLOW.group_id)] == {DENY}
    assert set().union(*found.values()) == {DENY}
    note = FenceNotes(FLOW, cluster).read()
    assert (set(note.acls), note.own) == ({DENY}, (DENY,))


@pytest.mark.parametrize("key", [b'["fence",', b'["fence",7,"t"]', b'["fence opened","a->b"]', b"?"])
def test_a_record_with_another_key_is_no_note_of_a_fence(key: bytes) -> None:
    assert decode_fence(KEY, GOOD) == (FenceOwner(FLOW.name, FLOW.group_id), (DENY,))
    assert decode_fence(key, GOOD) is None


def test_the_fences_of_switchovers_count_beside_those_of_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    fenced = json.dumps({"remove": acls_data([OTHER])}).encode()
    notes = {CONTROL: {KEY: GOOD}, SWITCHOVERS: {b'["a->b","","fenced",""]': fenced, b'["a->b","","run",""]': fenced}}
    cluster, _ = cluster_of(monkeypatch, notes)
    assert fences_on(cluster) == {DENY, OTHER}


def test_a_missing_right_ends_the_list_of_all_fences_and_leaves_the_left_fences_of_other_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hidden = TopicName("mm2-twinlog-control.c.internal")
    cluster, _ = cluster_of(monkeypatch, {hidden: {}, CONTROL: {KEY: GOOD}}, hidden)
    assert list(AllFenceNotes(cluster).read().values()) == [{DENY}]
    with pytest.raises(RefusedError, match=f"READ on {hidden}"):
        fences_on(cluster)


def test_a_cluster_without_a_journal_is_not_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers refuse a topic that is missing to a login without DESCRIBE."""
    cluster, topics = cluster_of(monkeypatch, {CONTROL: {KEY: GOOD}}, SWITCHOVERS)
    assert fences_on(cluster) == {DENY}
    assert topics.read == [CONTROL]
