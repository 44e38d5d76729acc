"""What the annotations of a resource have done with the offsets of its connectors."""

from __future__ import annotations

import json

import pytest

from tests.unit.connect.strimzi.following import NAME, PLACE, Following
from twinlog.errors import NotOwnerError, RequestError

KEY = "east--west.MirrorSourceConnector.json"

LISTS = ("sourceConnector:", "sourceConnector:\n        listOffsets: {toConfigMap: {name: found}}")

ALTERS = ("sourceConnector:", "sourceConnector:\n        alterOffsets: {fromConfigMap: {name: wanted}}")


def offsets(action: str, name: str = NAME) -> str:
    pair = f"strimzi.io/connector-offsets: {action}, strimzi.io/mirrormaker-connector: '{name}'"
    return f"annotations: {{{pair}}}"


def test_offsets_are_listed_where_the_config_map_would_be(following: Following) -> None:
    assert following.look(LISTS, ("annotations: {}", offsets("list"))) == []
    listed = following.secret.parents[1] / "found" / KEY
    assert json.loads(listed.read_text()) == {"offsets": [{"partition": PLACE, "offset": {"offset": 5}}]}
    listed.unlink()
    assert following.look(("replicas: 1", "replicas: 2")) == []
    assert not listed.exists(), "an annotation counts once"
    assert following.look((offsets("list"), "annotations: {}")) == []
    following.worker.refusal = RequestError(409, "a rebalance is underway")
    assert following.look(("annotations: {}", offsets("list"))) == []
    following.clock.now += 5
    assert following.look() == []
    assert listed.exists(), "what was not possible is tried again"


def test_offsets_are_altered_once_the_connector_is_stopped(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = following.secret.parents[1] / "wanted" / KEY
    wanted.parent.mkdir()
    wanted.write_text("{")
    assert following.look(ALTERS, ("annotations: {}", offsets("alter"))) == []
    assert f"connector {NAME} must be stopped before; write state: stopped at it" in caplog.text
    assert following.look(("state: running", "state: stopped")) == ["STOPPED"]
    following.clock.now += 5
    assert following.look() == []
    assert f"{KEY} of wanted: The request's body is invalid JSON" in caplog.text
    wanted.write_text(json.dumps({"offsets": [{"partition": PLACE, "offset": {"offset": 9}}]}))
    following.clock.now += 5
    assert following.look() == ["alter [{'offset': 9}]"]
    following.clock.now += 5
    assert following.look() == []
    assert following.look((offsets("alter"), offsets("reset"))) == ["reset"]


def test_offsets_are_changed_by_the_worker_that_has_the_connector(following: Following) -> None:
    assert following.look(("state: running", "state: stopped")) == ["STOPPED"]
    following.worker.refusal = NotOwnerError("another worker has it", "http://other:8083/")
    assert following.look(("annotations: {}", offsets("reset"))) == []
    following.clock.now += 5
    assert following.look() == [], "whoever has it has done it"


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (offsets("lists"), "'lists'; expected list, alter or reset"),
        (offsets("reset", "nobody"), f"'nobody'; expected the connector whose offsets are meant: {NAME}"),
        (offsets("list"), f"expected listOffsets.toConfigMap.name at the connector {NAME}"),
        (offsets("alter"), f"expected alterOffsets.fromConfigMap.name at the connector {NAME}"),
        (
            "annotations: {strimzi.io/connector-offsets: list}",
            "''; expected the connector whose offsets are meant",
        ),
    ],
)
def test_what_annotations_ask_of_offsets_in_vain(
    following: Following, caplog: pytest.LogCaptureFixture, annotation: str, said: str
) -> None:
    assert following.look(("state: running", "state: stopped"), ("annotations: {}", annotation)) == ["STOPPED"]
    assert said in caplog.text


def test_offsets_are_listed_once_the_resource_says_where(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    said = f"expected listOffsets.toConfigMap.name at the connector {NAME}"
    assert following.look(("annotations: {}", offsets("list"))) == []
    assert following.look() == []
    assert caplog.text.count(said) == 1
    assert following.look(LISTS) == []
    listed = following.secret.parents[1] / "found" / KEY
    assert listed.exists(), "the annotation is still there"
    listed.unlink()
    following.clock.now += 5
    assert following.look(("replicas: 1", "replicas: 2")) == []
    assert not listed.exists()
