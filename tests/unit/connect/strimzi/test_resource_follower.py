"""A file that changes, is swapped, is wrong or has new Secrets, and what its follower asks of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.connect.strimzi.following import NAME, TEXT, Following
from twinlog.errors import RequestError
from twinlog.worker.connectors.model import (
    ConnectorName,
    ConnectorState,
    TargetState,
)


def test_states_act_while_it_runs(following: Following) -> None:
    assert following.look(("state: running", "state: paused")) == ["PAUSED"]
    assert following.look(("state: paused", "state: stopped")) == ["STOPPED"]
    assert following.look(("state: stopped", "state: running")) == ["STARTED"]
    assert following.look(("replicas: 1", "replicas: 0")) == ["PAUSED"]
    assert following.look() == []


def test_other_settings_are_put_and_what_is_gone_is_deleted(following: Following) -> None:
    assert following.look(("state: running", "config: {topics: x}")) == ["put x"]
    assert following.look(("sourceConnector", "checkpointConnector")) == ["delete", "put x"]


def test_a_file_behind_links_as_kubernetes_swaps_them(tmp_path: Path) -> None:
    found = Following(tmp_path)
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        text = TEXT if version == "1" else TEXT.replace("running", "paused")
        (tmp_path / version / "mirror.yaml").write_text(text)
    found.file.unlink()
    (tmp_path / "..data").symlink_to("1")
    found.file.symlink_to("..data/mirror.yaml")
    assert found.look() == ["put None"]
    (tmp_path / "..new").symlink_to("2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert found.look() == ["PAUSED"]


def test_a_version_that_is_wrong_changes_nothing(following: Following, caplog: pytest.LogCaptureFixture) -> None:
    assert following.look(("state: running", "state: halted")) == []
    assert "mirror.yaml:24: spec.mirrors[0].sourceConnector.state: 'halted'" in caplog.text
    assert caplog.text.count("the earlier version stays in effect") == 1
    assert following.look(("state: halted", "state: paused")) == ["PAUSED"]
    following.file.unlink()
    assert following.look() == []
    assert "cannot be read, what was read before stays in effect" in caplog.text


def test_another_target_needs_another_process(following: Following, caplog: pytest.LogCaptureFixture) -> None:
    assert following.look(("west:9092", "elsewhere:9092"), ("state: running", "state: paused")) == []
    assert "restart this process" in caplog.text


def test_annotations(following: Following, caplog: pytest.LogCaptureFixture) -> None:
    def annotate(before: str, after: str) -> list[str]:
        return following.look((f"annotations: {before}", f"annotations: {after}"))

    restart = f"{{strimzi.io/restart-connector: '{NAME}:includeTasks'}}"
    assert annotate("{}", restart) == ["restart tasks"]
    assert following.look() == []
    task = f"{{strimzi.io/restart-connector-task: '{NAME}:0'}}"
    assert annotate(restart, task) == ["restart 0"]
    paused = "{strimzi.io/pause-reconciliation: 'true'}"
    assert annotate(task, paused) == []
    assert following.look(("state: running", "state: stopped")) == []
    assert annotate(paused, "{strimzi.io/restart-connector: nobody}") == ["STOPPED"]
    assert "'nobody'; expected a connector, such as" in caplog.text


def test_who_does_not_lead_leaves_it_to_who_does(following: Following) -> None:
    following.worker.leads = False
    assert following.look(("state: running", "state: paused")) == []
    task = f"annotations: {{strimzi.io/restart-connector-task: '{NAME}:1'}}"
    assert following.look(("annotations: {}", task)) == ["restart 1"]
    following.worker.leads = True
    assert following.look() == ["PAUSED"]


def test_a_new_secret_has_its_connectors_begin_anew(following: Following) -> None:
    following.secret.write_text("two")
    following.clock.now += 10
    assert following.look() == ["restart tasks"]
    following.clock.now += 10
    assert following.look() == []


def test_a_restart_that_is_not_possible_now_is_done_later(following: Following) -> None:
    rebalance = RequestError(409, "a rebalance is underway")
    following.worker.refusal = rebalance
    following.secret.write_text("two")
    following.clock.now += 10
    assert following.look() == ["restart tasks"]
    following.worker.refusal = rebalance
    assert following.look(("annotations: {}", f"annotations: {{strimzi.io/restart-connector: '{NAME}'}}")) == [
        "restart"
    ]
    assert following.look() == []


def test_a_task_that_is_not_there_is_not_asked_for_again(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    following.worker.refusal = RequestError(404, "Unknown task")
    task = f"annotations: {{strimzi.io/restart-connector-task: '{NAME}:7'}}"
    assert following.look(("annotations: {}", task)) == []
    assert caplog.text.count("Unknown task") == 1


def test_a_secret_that_comes_with_a_change_of_the_file(following: Following) -> None:
    following.secret.write_text("two")
    assert following.look(("replicas: 1", "replicas: 2")) == ["restart tasks"]
    following.clock.now += 10
    assert following.look() == []


def test_a_secret_that_changes_while_nothing_may_be_done(following: Following) -> None:
    paused = "annotations: {strimzi.io/pause-reconciliation: 'true'}"
    assert following.look(("annotations: {}", paused)) == []
    following.secret.write_text("two")
    following.clock.now += 10
    assert following.look() == []
    assert following.look((paused, "annotations: {}")) == ["restart tasks"]


def test_a_secret_that_comes_after_the_file_that_names_it(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    assert following.look(("password: password", "password: new"), ("state: running", "state: paused")) == []
    assert "the key 'new' of east is missing" in caplog.text
    following.secret.with_name("new").write_text("two")
    following.clock.now += 10
    assert following.look() == ["PAUSED", "put None"]


def test_a_connector_that_is_refused_holds_up_no_other(following: Following, caplog: pytest.LogCaptureFixture) -> None:
    following.worker.refusal = RequestError(400, "Connector configuration is invalid")
    both = "sourceConnector:\n        config: {topics: x}"
    more = "      checkpointConnector: {}\n      sourceConnector"
    assert following.look(("sourceConnector:", both), ("      sourceConnector", more)) == ["put None", "put x"]
    assert "stays as it is: Connector configuration is invalid" in caplog.text


def test_an_empty_file_deletes_nothing(following: Following, caplog: pytest.LogCaptureFixture) -> None:
    for text in ("", "\n", "kind: KafkaMirrorMaker2\n", TEXT.partition("  mirrors:")[0]):
        following.file.write_text(text)
        assert following.look() == [], text
        assert "the earlier version stays in effect" in caplog.text
        caplog.clear()


def test_a_failed_task_is_restarted(following: Following) -> None:
    following.worker.state = ConnectorState.FAILED
    assert following.look() == ["restart tasks failed"]
    assert following.look() == []


def test_a_connector_that_was_just_created_is_no_trouble_and_holds_up_no_restart(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    following.worker.state = ConnectorState.FAILED
    following.worker.unheard_of = {"east->west.MirrorSourceConnector"}
    more = "      checkpointConnector: {autoRestart: {enabled: true}}\n      sourceConnector"
    assert following.look(("      sourceConnector", more)) == ["put None", "restart tasks failed"]
    assert "tried again" not in caplog.text


def test_levels_are_those_of_the_file(following: Following) -> None:
    logging_ = "  logging: {type: inline, loggers: {rootLogger.level: DEBUG}}\n  mirrors:"
    following.look(("  mirrors:", logging_))
    assert following.levels == [("root", "DEBUG")]


def test_two_resources_in_one_group_leave_each_other_alone(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    """By their defaults all resources of v1beta2 with one target are in one group."""
    theirs = ConnectorName("north->west.MirrorSourceConnector")
    config = {"connector.class": "MirrorSourceConnector", "twinlog.resource": "second"}
    following.worker.has = {theirs: (config, TargetState.STARTED)}
    assert following.look(("state: running", "state: paused")) == []
    assert "belong to another resource (second)" in caplog.text
    assert f"twinlog connectors delete '{theirs}'" in caplog.text
    assert caplog.text.count("this resource is ignored") == 1
    # Neither does the one that does not lead.
    following.worker.leads = False
    task = f"annotations: {{strimzi.io/restart-connector-task: '{NAME}:0'}}"
    assert following.look(("annotations: {}", task)) == []
    following.worker.leads, following.worker.has = True, {}
    assert following.look() == ["put None", "restart 0"]
    assert following.worker.has[NAME][0]["twinlog.resource"] == "mirror"


def test_another_alias_copies_nothing_into_the_same_topics_again(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    identity = "config: {replication.policy.class: org.apache.kafka.connect.mirror.IdentityReplicationPolicy}"
    assert following.look(("state: running", f"{identity}\n        state: running")) == ["put None"]
    assert following.look(("alias: east", "alias: orient")) == []
    new = ConnectorName("orient->west.MirrorSourceConnector")
    assert f"connector {new} waits to be created, and {NAME} stays" in caplog.text
    assert caplog.text.count("a second time") == 1
    # An annotation can name only a connector of the resource.
    assert f"twinlog connectors offsets list '{NAME}' -o json" in caplog.text
    # One that is stopped can have its positions altered, and runs then.
    assert following.look(("state: running", "state: stopped")) == ["delete", "put None"]
    assert following.worker.has[new][1] is TargetState.STOPPED
    assert following.look(("state: stopped", "state: running")) == ["STARTED"]


def test_another_alias_has_other_topics_without_that_policy(following: Following) -> None:
    assert following.look(("alias: east", "alias: orient")) == ["delete", "put None"]
