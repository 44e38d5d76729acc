"""Which pairs run, how often they do what, and what is refused, is what MirrorMaker 2 makes of the same file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from twinlog.config import load
from twinlog.errors import ConfigError

RECORDED = Path(__file__).parents[2] / "recorded" / "flows.jsonl"
ROWS = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]

SETTINGS = {
    "refreshTopicsInterval": ("refresh_topics_interval_s", "refresh.topics"),
    "syncTopicConfigsInterval": ("sync_topic_configs_interval_s", "sync.topic.configs"),
    "syncTopicAclsInterval": ("sync_topic_acls_interval_s", "sync.topic.acls"),
    "refreshGroupsInterval": ("refresh_groups_interval_s", "refresh.groups"),
    "emitCheckpointsInterval": ("emit_checkpoints_interval_s", "emit.checkpoints"),
    "syncGroupOffsetsInterval": ("sync_group_offsets_interval_s", "sync.group.offsets"),
    "emitHeartbeatsInterval": ("emit_heartbeats_interval_s", "emit.heartbeats"),
}


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_the_same_file(tmp_path: Path, row: Mapping[str, Any]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(row["text"])
    if row["source_refuses"]:
        with pytest.raises(ConfigError) as caught:
            load(file)
        assert [problem.key.split("->B.")[-1] for problem in caught.value.problems] == row["source_refuses"]
        return
    flows = {flow.name: flow for flow in load(file).flows}
    assert sorted(flows) == row["pairs"]
    flow = flows["A->B"]
    for name, seconds in row["intervals"].items():
        setting, work = SETTINGS[name]
        ours = getattr(flow, setting)
        off = seconds < 0 or (row["checkpoint_refuses"] and setting.startswith(("emit_checkpoints", "sync_group")))
        assert (ours is None) == bool(off), name
        if re.search(rf"^(A->B\.)?{re.escape(work)}\.interval", row["text"], re.MULTILINE) and not off:
            assert ours == seconds, name
