"""Two flows into one remote topic: who may write it does not depend on who starts first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.clock import SYSTEM
from twinlog.mirror.topics.changes import TopicPair
from twinlog.model.topics import Topic
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import CustomClass, FlowSettings
from twinlog.settings.transform import SmtChain, SmtStage, TransformSettings
from twinlog.worker.topics.topic_conflicts import TopicConflicts, first_to_write, have_topics_apart, may_meet


def flow(source: str, target: str, policy: str = "identity") -> FlowSettings:
    here, there = (ClientSettings((f"{alias}:9092",)) for alias in (source, target))
    return FlowSettings(
        source=Alias(source),
        target=Alias(target),
        consumer=ConsumerSettings(here),
        producer=ProducerSettings(there),
        source_admin=AdminSettings(here),
        target_admin=AdminSettings(there),
        policy=policy,  # type: ignore[arg-type]
    )


def connector(name: str, source: str = "a", target: str = "b", **settings: Any) -> FlowSettings:
    return replace(flow(source, target, "default"), kind="source", connector_name=name, **settings)


def test_only_flows_that_keep_names_into_one_cluster_can_meet() -> None:
    one = flow("a", "c")
    assert may_meet(one, flow("b", "c"))
    assert may_meet(one, flow("b", "c", "default"))
    assert may_meet(flow("b", "c", "default"), one)
    assert may_meet(flow("a", "c", "default"), flow("b", "c", "custom"))
    assert not may_meet(flow("a", "c", "default"), flow("b", "c", "default"))
    assert not may_meet(one, flow("b", "d"))
    assert not may_meet(one, one)
    assert not may_meet(one, replace(flow("b", "c"), enabled=False))


def test_connectors_can_meet_that_have_both_clusters_in_common() -> None:
    one = connector("one")
    assert may_meet(one, connector("two"))
    assert may_meet(one, replace(connector("two", target="there"), target_admin=one.target_admin))
    assert not may_meet(one, connector("one"))
    assert not may_meet(one, connector("two", source="c"))
    assert not may_meet(one, connector("two", target="c"))
    # Either may call its target by the default alias.
    assert not may_meet(one, replace(connector("two"), target_admin=connector("two", target="c").target_admin))


def test_flows_have_their_topics_apart_only_where_both_name_copies_alike() -> None:
    one = connector("one", topics=("a.*",))
    two = replace(one, connector_name="two", topics=("b.*", "c"))
    assert have_topics_apart(one, two)
    assert not have_topics_apart(one, replace(two, topics=("ab",)))
    # `s.t` kept, and `t` from s.
    assert not have_topics_apart(one, replace(two, policy="identity"))
    assert not have_topics_apart(one, replace(two, source=Alias("s")))
    assert not have_topics_apart(one, replace(two, separator="_"))
    custom = replace(one, policy="custom")
    assert not have_topics_apart(custom, replace(custom, topics=("b",)))
    by_class = replace(two, topic_filter_class=CustomClass("m:C", "topic.filter.class", "f", 1))
    assert not have_topics_apart(one, by_class)
    assert not have_topics_apart(by_class, one)


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("other_copied", [True, False])
def test_just_one_of_two_writes(*, copied: bool, other_copied: bool) -> None:
    first = first_to_write(0, 1, copied=copied, other_copied=other_copied)
    second = first_to_write(1, 0, copied=other_copied, other_copied=copied)
    assert first != second
    # Whoever began goes on; else the one that stands first in the file.
    assert first == (copied or not other_copied)


class Target:
    """A cluster of which the names of its topics are known."""

    clock, client = SYSTEM, None

    def topics(self) -> dict[TopicName, Topic]:
        return {}


class Positions:
    """Those of a flow that has copied some topics."""

    def __init__(self, *topics: str) -> None:
        self._topics = topics

    def read(self, parts: Sequence[TopicPartition]) -> dict[TopicPartition, None]:
        return dict.fromkeys(part for part in parts if part.topic in self._topics)


def conflicts(flow: FlowSettings, *flows: FlowSettings, copied: Sequence[str] = ()) -> TopicConflicts:
    return TopicConflicts(flow, flows, Target(), Positions(*copied))  # type: ignore[arg-type]


def pairs(*names: str) -> list[TopicPair]:
    """Topics of cluster a with their copies; those of heartbeats are of it and of cluster c."""
    beats = {"heartbeats", "c.heartbeats"}
    return [TopicPair(Topic(TopicName(name), 1, None), TopicName(f"a.{name}"), name in beats) for name in names]


def test_two_separators_of_one_file() -> None:
    there, back = flow("a", "b", "default"), replace(flow("b", "a", "default"), separator="_")
    here = conflicts(there, there, back)
    assert set(here.from_target(pairs("t", "b_t", "b_a.t"))) == {"b_t", "b_a.t"}
    assert "as b->a names its copies" in here.from_target(pairs("b_t"))[TopicName("b_t")]
    assert here.refusals(pairs("t"), ()) == {}
    assert here.reports_a_cycle(TopicName("b_t"), ())
    assert set(conflicts(back, there, back).from_target(pairs("t", "a.t"))) == {"a.t"}


def test_a_topic_of_ones_own_that_looks_like_a_copy() -> None:
    there, back = flow("a", "b", "default"), replace(flow("b", "a", "default"), separator="_")
    own, copy = TopicName("b_own"), TopicName("b_t")
    here = conflicts(there, there, back)
    assert here.from_target(pairs(own, copy)).keys() == {own, copy}
    assert here.lacks_original(own, {TopicName("t")})
    assert not here.lacks_original(copy, {TopicName("t")})
    # Nobody looks at a third cluster.
    third = replace(flow("c", "a", "default"), separator="-")
    over = conflicts(there, there, replace(flow("b", "c", "default"), separator="_"), third)
    assert over.from_target(pairs("c-b_t")).keys() == {"c-b_t"}
    assert not over.lacks_original(TopicName("c-b_t"), ())
    retrying = replace(there, topics=(own, ".*"))
    here = conflicts(retrying, retrying, back)
    assert here.from_target(pairs(own, copy)).keys() == {copy}
    assert not here.reports_a_cycle(own, ())
    assert here.reports_a_cycle(copy, ())
    assert here.refusals(pairs(own), ()) == {}


def test_topics_that_are_gone_are_forgotten() -> None:
    there, back = flow("a", "b", "default"), replace(flow("b", "a", "default"), separator="_")
    here = conflicts(there, there, back)
    asked = TopicName("asked")
    for number in range(100):
        here.from_target(pairs(f"t-{number}"))
        here.reports_a_cycle(asked, ())
    assert len(here._returns) + len(here._earlier) <= 4
    assert asked in here._returns


def test_a_separator_of_another_file() -> None:
    alone = flow("a", "b", "default")
    here = conflicts(alone, alone)
    assert here.from_target(pairs("b_a.t")) == {}
    (reason,) = here.refusals(pairs("t", "b_a.t", "b_u"), {TopicName("a.t")}).values()
    assert "the copy of a.t" in reason


def test_of_two_connectors_that_mirror_one_topic_one_copies_it() -> None:
    """MirrorMaker 2's would both, and each record would be there twice."""
    one, two = connector("one", topics=("t", "u")), connector("two", topics=("u", "v"))
    assert conflicts(one, one, two).refusals(pairs("t", "u", "heartbeats"), ()) == {}
    found = conflicts(two, one, two).refusals(pairs("u", "v", "heartbeats"), ())
    assert found.keys() == {"u"}
    assert "one copies it to the same topic a.u of b, and each record would be there twice" in found[TopicName("u")]
    # Who has copied it goes on.
    assert conflicts(two, one, two, copied=["u"]).refusals(pairs("u", "v"), ()) == {}


def test_topics_that_are_called_like_heartbeats_are_copied_by_one_of_two_connectors() -> None:
    one, two = connector("one"), connector("two")
    found = conflicts(two, one, two).refusals(pairs("device-heartbeats", "device.heartbeats", "c.heartbeats"), ())
    assert found.keys() == {"device-heartbeats", "device.heartbeats"}


def test_a_class_of_another_flow_that_fails_on_a_topic_fails_that_flow_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = """\
class Naming:
    def remote_name(self, alias, topic): return f"a.{topic}" if topic != "w" else 1 / 0
    def source_alias(self, topic): return None
    def upstream_name(self, topic): return None
"""
    (tmp_path / "naming_of_another_flow.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    named = CustomClass("naming_of_another_flow:Naming", "replication.policy.class", "f", 1)
    one = connector("one", topics=("v", "w"), policy="custom", policy_class=named)
    two = connector("two", topics=("v", "w"))
    assert conflicts(two, one, two).refusals(pairs("v", "w"), ()).keys() == {"v"}


def test_a_class_of_another_flow_that_is_not_on_this_host_fails_that_flow_alone() -> None:
    named = CustomClass("on_another_host:Naming", "replication.policy.class", "f", 1)
    one = connector("one", topics=("v",), policy="custom", policy_class=named)
    two = connector("two", topics=("v",))
    assert conflicts(two, one, two).refusals(pairs("v"), ()) == {}


def test_of_two_connectors_that_know_one_source_by_other_servers_both_copy_heartbeats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = connector("one")
    two = replace(connector("two"), source_admin=AdminSettings(ClientSettings(("other:9092",))))
    seen = dict.fromkeys(map(TopicName, ("x", "heartbeats")))
    admin = SimpleNamespace(connect=lambda: None, topics=lambda: seen, close=lambda: None)
    target: Any = Target()
    found = TopicConflicts(two, [one, two], target, Positions(), connect=lambda *_: admin)  # type: ignore[arg-type]
    try:
        assert found.refusals(pairs("x", "heartbeats"), ()).keys() == {"x"}
    finally:
        found.close()


def test_two_connectors_may_take_one_topic_to_two_places() -> None:
    one = connector("one")
    for two in (routing(connector("two"), r"a\.(.*)", "other.$1"), filtering(connector("two"))):
        assert refused(one, one, two) == refused(two, one, two) == {}
    same = routing(connector("two"), "elsewhere", "other")
    assert refused(same, one, same).keys() == {"x"}


def test_two_connectors_may_route_what_they_name_otherwise_to_one_place() -> None:
    """Each record was there twice, and nothing said so."""
    one = routing(connector("one"), r"a\.(.*)", "$1")
    same = one.source_admin
    for two in (
        # Under another alias of the same cluster.
        routing(replace(connector("two", source="c"), source_admin=same), r"c\.(.*)", "$1"),
        # Under a policy that keeps names, and no route.
        replace(connector("two"), policy="identity"),
    ):
        assert may_meet(one, two)
        assert refused(one, one, two) == {}
        pair = TopicPair(Topic(TopicName("x"), 1), TopicName("x" if two.policy == "identity" else "c.x"))
        found = conflicts(two, one, two).refusals([pair], set())
        assert "one copies it to the same topic x of b, and each record would be there twice" in found[TopicName("x")]
        # What one of them alone mirrors is written by that one, as is what both route apart.
        alone = replace(one, topics=("y",))
        assert conflicts(two, alone, two).refusals([pair], set()) == {}
        apart = routing(connector("one"), r"a\.(.*)", "other.$1")
        assert conflicts(two, apart, two).refusals([pair], set()) == {}
    # Topics of two clusters that are routed to one place are to be there together.
    assert not may_meet(one, routing(connector("two", source="c"), r"c\.(.*)", "$1"))


def filtering(flow: FlowSettings) -> FlowSettings:
    return replace(flow, transform=TransformSettings(smts=SmtChain((SmtStage("f", "Filter", "", ()),))))


def routing(flow: FlowSettings, regex: str, replacement: str, *more: SmtStage) -> FlowSettings:
    stage = SmtStage("r", "RegexRouter", "", (("regex", regex), ("replacement", replacement)))
    return replace(flow, transform=TransformSettings(smts=SmtChain((stage, *more))))


def refused(flow: FlowSettings, *flows: FlowSettings, topic: str = "x") -> dict[TopicName, str]:
    there = TopicPair(Topic(TopicName(topic), 1), TopicName(f"{flow.source}.{topic}"))
    return conflicts(flow, *flows).refusals([there], set())


def test_topics_that_flows_route_into_each_other_are_left_out() -> None:
    """No policy knows them by their names."""
    there = routing(flow("a", "b", "default"), r"a\.x", "y")
    back = routing(flow("b", "a", "default"), r"b\.(.)", "x")
    found = refused(there, there, back)
    assert "the flows a->b, b->a would route it round for ever" in found[TopicName("x")]
    assert "b->a, a->b would route it round" in refused(back, there, back, topic="y")[TopicName("y")]
    # What is routed somewhere else, or by records, is copied.
    assert refused(there, there, back, topic="z") == {}
    assert refused(there, there, flow("b", "a", "default")) == {}
    by_record = routing(flow("b", "a", "default"), r"b\.(.)", "x", SmtStage("f", "Filter", "", ()))
    assert refused(there, there, by_record) == {}
    assert refused(there, there, replace(back, topics_exclude=("y",))) == {}


def test_connectors_that_route_topics_into_each_other_are_known_by_their_names() -> None:
    there = routing(connector("there"), r"a\.x", "y")
    back = routing(connector("back", "b", "a"), r"b\.(.)", "x")
    found = refused(there, there, back)
    assert "the flows there, back would route it round for ever" in found[TopicName("x")]


def test_two_topics_that_one_flow_routes_into_each_other_end_on_the_target() -> None:
    one = routing(flow("a", "b", "default"), r"a\.(.)", "y")
    assert refused(one, one) == {}
