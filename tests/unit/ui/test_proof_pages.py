"""The proof of equality on the pages of a flow, of its topics, of a topic, and of the readiness for a switchover."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.ops.status.test_command import REPORTED
from tests.unit.ui.browser import Browser
from tests.unit.ui.fakes import FakeSources, snapshot, topic
from twinlog.model.types import SourceOffset, TargetOffset
from twinlog.ops.proven_ranges import PartitionProven
from twinlog.worker.status.report import ProofProgress

PROOF = ProofProgress(2, 0.2, 1000, 41_300_000, 0, 0)
FLOW, TOPIC, READY = "/ui/flow?flow=a-%3Eb", "/ui/topic?flow=a-%3Eb&topic=orders", "/ui/readiness?flow=a-%3Eb"


@pytest.fixture
def proving(sources: FakeSources) -> FakeSources:
    """A flow that proves topic `orders`; partition 1 has a difference."""
    proofs = (
        PartitionProven(SourceOffset(4), SourceOffset(4), TargetOffset(3), 0),
        PartitionProven(
            SourceOffset(4),
            SourceOffset(2),
            TargetOffset(1),
            1_500,
            7,
            1,
            "foreign at source offset 2, target offset 1",
        ),
    )
    orders = topic("orders")
    parts = tuple(replace(part, proven=proof) for part, proof in zip(orders.partitions, proofs, strict=True))
    sources.only.topics = (replace(orders, partitions=parts), topic("logs", 1))
    sources.only.flow = snapshot(replace(REPORTED, proof=PROOF))
    return sources


def test_the_page_of_a_topic_has_the_proof_of_each_partition(browser: Browser, proving: FakeSources) -> None:
    page = browser.json(TOPIC)
    first, second = page["partitions"]["rows"]
    assert (first["proven_source"], first["proven_target"], first["proof_lag_s"]) == (4, 3, 0.0)
    assert (first["differences"], first["difference"]) == (0, None)
    assert (second["proven_source"], second["proof_lag_s"], second["differences"], second["unproved"]) == (2, 1.5, 1, 7)
    assert second["difference"] == "TW-PROOF-01: foreign at source offset 2, target offset 1"
    text = browser.get(TOPIC).text
    assert "foreign at source offset 2, target offset 1" in text
    assert "Proven to" in text
    ordered = browser.json(f"{TOPIC}&sort=proof_lag_s&order=desc")["partitions"]["rows"]
    assert [row["partition"] for row in ordered] == [1, 0]


def test_the_topics_of_a_flow_have_the_lag_and_the_differences_of_their_proof(
    browser: Browser, proving: FakeSources
) -> None:
    rows = {row["topic"]: row for row in browser.json(FLOW)["topics"]["rows"]}
    assert (rows["orders"]["proof_lag_s"], rows["orders"]["differences"]) == (1.5, 1)
    assert (rows["logs"]["proof_lag_s"], rows["logs"]["differences"]) == (None, None)
    text = browser.get(FLOW).text
    assert "Proof behind" in text
    assert "41.3 MB in 2 partitions proven, 0 differences" in text


def test_a_flow_without_a_proof_has_no_columns_for_it(browser: Browser, sources: FakeSources) -> None:
    sources.only.flow = snapshot(replace(REPORTED, proof=None))
    for url in (FLOW, TOPIC, "/ui/topics?flow=a-%3Eb"):
        text = browser.get(url).text
        assert "Proof behind" not in text
        assert "Proof of equality" not in text
    assert "Proof of equality" not in {one["check"] for one in browser.json(READY)["checks"]}


@pytest.mark.parametrize(
    ("proof", "good"),
    [(PROOF, True), (replace(PROOF, differences=1), False), (replace(PROOF, lag_s=10.5), False)],
)
def test_readiness_has_its_check(browser: Browser, proving: FakeSources, proof: ProofProgress, good: bool) -> None:
    proving.only.flow = snapshot(replace(REPORTED, proof=proof))
    (check,) = [one for one in browser.json(READY)["checks"] if one["check"] == "Proof of equality"]
    assert check["good"] is good
    assert check["evidence"] == (
        f"{proof.lag_s:.1f} s behind, 41.3 MB in 2 partitions proven, "
        f"{'1 difference' if proof.differences else '0 differences'}"
    )
