"""When a checkpoint is written, by what was written last."""

from __future__ import annotations

import pytest

from twinlog.mirror.groups.checkpoint_writer import is_due
from twinlog.mirror.groups.checkpoints import Checkpoint
from twinlog.model.types import GroupId, TopicName


def checkpoint(upstream: int, downstream: int, metadata: str = "") -> Checkpoint:
    return Checkpoint(GroupId("g"), TopicName("east.t"), 0, upstream, downstream, metadata)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    ("last", "new", "due"),
    [
        pytest.param(None, checkpoint(5, 4), True, id="the first"),
        pytest.param(checkpoint(5, 4), checkpoint(5, 4), False, id="the same"),
        pytest.param(checkpoint(5, 4), checkpoint(9, 4), False, id="further only on the source"),
        pytest.param(checkpoint(5, 4), checkpoint(9, 8), True, id="further on both sides"),
        pytest.param(checkpoint(5, 4), checkpoint(5, 5), True, id="further copied"),
        pytest.param(checkpoint(5, 4), checkpoint(3, 2), True, id="the group went back"),
        pytest.param(checkpoint(5, 4), checkpoint(3, 4), True, id="the group went back within a hole"),
        pytest.param(checkpoint(5, 4), checkpoint(5, 4, "new"), True, id="other metadata"),
        pytest.param(checkpoint(5, 4), checkpoint(6, 4, "new"), False, id="other metadata of another offset"),
    ],
)
def test_checkpoints_go_forward_and_back_only_with_their_group(
    last: Checkpoint | None, new: Checkpoint, due: bool, exact: bool
) -> None:
    assert is_due(new, last, exact=exact) is due


def test_only_an_exact_translation_takes_a_checkpoint_back() -> None:
    assert is_due(checkpoint(9, 2), checkpoint(5, 4), exact=True)
    assert not is_due(checkpoint(9, 2), checkpoint(5, 4), exact=False)
