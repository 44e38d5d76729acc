"""`twinlog translate`: the offsets of a group, or one offset, as they are on the other side."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.groups import commit_offsets
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic
from tests.integration.copying import SOURCE, TARGET, CopyFlow, flow_settings
from twinlog.cli.main import app
from twinlog.errors import ClusterError
from twinlog.mirror.offsets.translator import Translation
from twinlog.model.types import GroupId, TopicName, TopicPartition
from twinlog.ops.translate.offset_lookup import Lookup
from twinlog.settings.client import AdminSettings


@pytest.fixture
def file(copy_flow: CopyFlow, tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(
        f"clusters = {SOURCE}, {TARGET}\n"
        f"{SOURCE}.bootstrap.servers = {copy_flow.source.bootstrap}\n"
        f"{TARGET}.bootstrap.servers = {copy_flow.target.bootstrap}\n"
        f"{SOURCE}->{TARGET}.enabled = true\n"
        f"{SOURCE}->{TARGET}.topics.exclude = left-out.*\n",
        "utf-8",
    )
    return path


def test_the_command_translates_a_group_there_and_back(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str], file: Path
) -> None:
    remote = copy_flow.create(topic_name, 2)
    left_out = create_topic(copy_flow.source, new_name("left-out"))
    produce(copy_flow.source, left_out, numbered(5))
    produce(copy_flow.target, remote, [NewRecord(b"before")], partition=0)
    for number in range(2):
        produce(copy_flow.source, topic_name, numbered(50), partition=number)
    copy_flow.copy(topic_name)
    group = new_name("group")
    commit_offsets(copy_flow.source, {group: {(topic_name, 0): 20, (topic_name, 1): 50, (left_out, 0): 3}})

    done = CliRunner().invoke(app, ["translate", str(file), "--group", group, "--json"])
    assert done.exit_code == 1
    answer = json.loads(done.stdout)
    assert (answer["flow"], answer["from"], answer["to"]) == ("north->south", "north", "south")
    by_topic = {(row["topic"], row["partition"]): row for row in answer["offsets"]}
    assert by_topic[topic_name, 0]["to"] == {
        "topic": remote, "partition": 0, "offset": 21, "exact": True, "by": "map"
    }  # fmt: skip
    assert by_topic[topic_name, 1]["to"]["offset"] == 50
    assert by_topic[left_out, 0]["to"] is None
    assert f"does not mirror {left_out}: topics.exclude matches it (" in by_topic[left_out, 0]["reason"]

    commit_offsets(copy_flow.target, {group: {(remote, 0): 31}})
    done = CliRunner().invoke(app, ["translate", str(file), "--group", group, "--back", "--flow", "north->south"])
    assert done.exit_code == 0, done.output
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        [remote, "0", "31", "->", topic_name, "0", "30", "exact"]
    ]


def test_the_command_translates_one_offset(copy_flow: CopyFlow, topic_name: str, file: Path) -> None:
    copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(50))
    copy_flow.copy(topic_name)

    def ask(*options: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["translate", str(file), *options])
        return done.exit_code, done.output

    code, printed = ask("--topic", topic_name, "--partition", "0", "--offset", "17")
    assert (code, printed.splitlines()[1].split()[-2:]) == (0, ["17", "exact"])
    code, printed = ask("--topic", topic_name, "--partition", "0", "--offset", "70")
    assert code == 0
    assert "not exact: no record is skipped" in printed
    code, printed = ask("--topic", topic_name, "--partition", "9", "--offset", "1")
    assert code == 1
    assert "has not copied this partition yet" in printed
    code, printed = ask("--topic", topic_name, "--partition", "0", "--offset", "1", "--back")
    assert code == 1
    assert f"{topic_name} is no copy by north->south" in printed
    code, printed = ask("--group", "nobody-has-this-name")
    assert code == 1
    assert "group nobody-has-this-name lacks committed offsets" in printed


def test_a_dead_source_spoils_no_answer(copy_flow: CopyFlow, topic_name: str, caplog: pytest.LogCaptureFixture) -> None:
    """As after a disaster: all that twinlog has copied itself is known on the target."""
    copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(50))
    copy_flow.copy(topic_name)
    settings = flow_settings(copy_flow.source, copy_flow.target)
    nowhere = AdminSettings(replace(settings.source_admin.client, bootstrap_servers=("127.0.0.1:1",)))
    with Lookup(replace(settings, source_admin=nowhere), back=False, connect_s=2.0) as lookup:
        never = lookup.offset(TopicPartition(TopicName(topic_name), 9), 1)
        assert "has not copied this partition yet" in never.reason
        assert lookup.offset(TopicPartition(TopicName(topic_name), 0), 17).found == Translation(17, True)
        beyond = lookup.offset(TopicPartition(TopicName(topic_name), 0), 70).found
        assert beyond is not None
        assert (beyond.offset, beyond.exact) == (50, False)
        with pytest.raises(ClusterError, match=rf"; what g had committed last is in the checkpoints, topic {SOURCE}\."):
            lookup.group(GroupId("g"))
    assert "the offset syncs are unreadable" in caplog.text
