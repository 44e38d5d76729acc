"""Laws of the road of transforms, over logs of every shape a source can have."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from tests.any_log import logs, rules
from tests.property.test_copy_laws import copied
from tests.source_log import SourceLog
from tests.transforms import identity
from twinlog.batches.prepare import prepare
from twinlog.kafka.producer.appends import CopyRules
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.transform import TransformSettings
from twinlog.transforms.fetch_transformer import FetchTransformer

WHERE = TopicPartition(TopicName("t"), 0)
ROAD = FetchTransformer(identity, TransformSettings("a:b"), "a->b", WHERE, WHERE, lambda _: 1, lambda: 0.0)

anything = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@anything
@given(log=logs(), rules=rules, data=st.data())
def test_unchanged_records_are_those_of_the_raw_road(log: SourceLog, rules: CopyRules, data: Any) -> None:
    position = data.draw(st.one_of(st.just(0), st.integers(0, log.next_offset)))
    made = ROAD.prepare(log.fetch(position), position, rules, log.aborted(position))
    raw = prepare(log.fetch(position), position, rules, log.aborted(position))
    expected = log.visible(position, read_committed=rules.read_committed)
    assert copied(made.appends, rules.max_batch_bytes) == expected
    assert (made.position, made.aborted, made.control) == (raw.position, raw.aborted, raw.control)
    assert made.leader_epoch == raw.leader_epoch
    assert (made.dropped, made.failed, made.routed) == (0, [], [])
