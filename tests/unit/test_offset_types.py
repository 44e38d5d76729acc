"""A source offset where a target offset belongs is an error of mypy: one run over all snippets, right and wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

HEAD = """\
from twinlog.mirror.records import Checkpoint
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator
from twinlog.lease.messages import Grant
from twinlog.lease.progress import PartitionProgress
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.mirror.offsets.exact_map import ExactMap, Point, CopiedRun
from twinlog.mirror.offsets.maps import ExactMaps
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.exact_map import CopiedRuns
from twinlog.mirror.offsets.segments import LastPoint
from twinlog.mirror.offsets.syncs import OffsetSync, SyncEmitter
from twinlog.mirror.offsets.sync_store import MirrorTranslation
from twinlog.mirror.offsets.translator import Translator
from twinlog.mirror.gaps import Gap, find_gap
from twinlog.copier.partition.copied_records import MisplacedAppends
from twinlog.copier.partition.copied_records import CopiedRecords
from twinlog.copier.start.lost_records import ResumePoint
from twinlog.copier.start.resume_after_crash import LogBounds
from twinlog.copier.partition.source_log import SourcePosition
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.append_queue import AppendQueue

s, t = SourceOffset(1), TargetOffset(2)
topic, group = TopicName("t"), GroupId("g")
part = TopicPartition(topic, 0)
def some(
    map_: ExactMap, maps: ExactMaps, runs: CopiedRuns, append: Append, mirror: MirrorTranslation, emitter: SyncEmitter,
    translator: Translator, groups: GroupOffsetTranslator, copied: CopiedRecords, read: SourcePosition, grant: Grant,
    queue: AppendQueue, tip: LastPoint,
) -> None:
    found_there, found_here = map_.to_target(s), map_.to_source(t)
    assert found_there is not None and found_here is not None
    assert grant.position is not None and grant.position.next_target is not None
"""

RIGHT_AND_WRONG = [
    ("Position({}, {})", "s, t", "t, s"),
    ("Position({})", "grant.position.next_source", "grant.position.next_target"),
    ("Point({}, {})", "s, t", "t, s"),
    ("CopiedRun({}, {}, 5)", "s, t", "s, s"),
    ("LastPoint(0, {}, {})", "s, t", "t, t"),
    ("tip.before({}, {})", "s, t", "t, s"),
    ("OffsetSync(topic, 0, {}, {})", "s, t", "t, s"),
    ("Checkpoint(group, topic, 0, {}, {})", "s, t", "t, s"),
    ("PartitionProgress(topic, 0, {}, t, {})", "s, s", "s, t"),
    ("ExactMap({}, {})", "s, t", "t, s"),
    ("map_.add_run({}, {}, 5)", "s, t", "t, s"),
    ("map_.move_end({}, {})", "found_here.offset, found_there.offset", "found_there.offset, found_here.offset"),
    ("map_.to_target({})", "s", "t"),
    ("map_.to_source({})", "found_there.offset", "found_here.offset"),
    ("maps.extend_map(part, {}, {}, generation=0)", "s, t", "t, s"),
    ("runs.add(append.spans, {})", "t", "append.next_source_offset"),
    ("runs.add_jump({}, {})", "append.next_source_offset, t", "t, t"),
    ("emitter.acknowledged(part, append.spans, {})", "t", "s"),
    ("mirror.translate(part, {})", "s", "t"),
    ("mirror.translate_back(part, {})", "t", "s"),
    ("translator.to_target(part, {})", "s", "t"),
    ("translator.to_source(part, {})", "t", "s"),
    ("groups.translate_offset(part, {})", "s", "t"),
    ("Gap('retention', s, s, {})", "s", "t"),
    ("find_gap({}, s, s)", "grant.position.next_source", "grant.position.next_target"),
    ("ResumePoint({}, True, {})", "s, t", "t, s"),
    ("LogBounds({}, t, t)", "s", "t"),
    ("MisplacedAppends({}, {})", "t, s", "s, t"),
    ("copied.add(append, {}, 0)", "t", "s"),
    ("copied.pass_over({}, 0)", "s", "t"),
    ("read.seek_offset({})", "append.first_source_offset", "t"),
    ("queue.accept_first({})", "t", "append.first_source_offset"),
    ("Position({})", "s", "1"),
]
"""An expression, what belongs into it, and what does not."""


def test_offsets_of_the_two_clusters_are_not_mixed_up(tmp_path: Path) -> None:
    lines = HEAD.splitlines()
    wrong = set()
    for form, right, mixed in RIGHT_AND_WRONG:
        # Where there are two, each has its own place.
        for values in (right, mixed):
            if values == mixed:
                wrong.add(len(lines) + 1)
            lines.append("    " + form.format(*values.split(", ")))
    snippets = tmp_path / "snippets.py"
    snippets.write_text("\n".join(lines) + "\n", encoding="utf-8")
    # The project's settings, and what the last `make check` knew of its modules.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--config-file", "pyproject.toml", str(snippets)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    found = {int(line): text for line, text in re.findall(r"snippets\.py:(\d+): error: (.*)", done.stdout)}
    unexpected = {lines[line - 1].strip(): found[line] for line in found.keys() - wrong}
    assert unexpected == {}, done.stdout
    assert {lines[line - 1].strip() for line in wrong - found.keys()} == set()
    assert all("incompatible type" in text for text in found.values()), done.stdout
