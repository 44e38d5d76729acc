"""Only a partition changes what it is: nothing else in a task sets one of its fields, or those of its parts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import twinlog.copier.partition

TASK = Path(twinlog.copier.partition.__file__).parent
OWNERS = {
    "partition.py": TASK / "partition.py",
    "life.py": TASK / "life.py",
    "copy_state.py": TASK / "copy_state.py",
    "appends.py": TASK / "appends.py",
    "copied_records.py": TASK / "copied_records.py",
    "source_log.py": TASK / "source_log.py",
    "batch_limit.py": TASK / "batch_limit.py",
    "append_queue.py": TASK.parents[1] / "kafka" / "producer" / "append_queue.py",
    "produce_errors.py": TASK.parents[1] / "kafka" / "producer" / "produce_errors.py",
}
"""Who may set fields of their own; the queue's owner is the partition."""


def set_attributes(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Whatever is assigned to or deleted as `something.name`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node


def is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


@cache
def fields() -> frozenset[str]:
    """What partitions and their parts hold."""
    names: set[str] = set()
    for path in OWNERS.values():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names.update(node.attr for node in set_attributes(tree) if is_own(node))
    return frozenset(names)


def own_dataclass_fields(tree: ast.Module) -> set[str]:
    return {
        field.target.id
        for one in tree.body
        if isinstance(one, ast.ClassDef)
        for field in one.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


def from_outside(source: str) -> list[str]:
    """Where a module sets a field of a partition that is not itself, nor of a dataclass that it has of its own."""
    tree = ast.parse(source)
    known = fields() - own_dataclass_fields(tree)
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in set_attributes(tree)
        if not is_own(node) and node.attr in known
    ]


def test_what_is_looked_for_is_found() -> None:
    assert {"paused", "trouble", "phase", "acknowledged", "gate", "held_back", "rules", "offset"} <= fields()
    lines = ["part.paused = True", "self.part.copied.bytes += 1", "one.queue.gate, other = gates", "del part.misplaced"]
    assert len(from_outside("\n".join(lines))) == len(lines)
    assert from_outside("self.paused = part.paused\npart.pause()\nthing.of_its_own = 1") == []


@pytest.mark.parametrize("path", sorted(TASK.parent.rglob("*.py")), ids=lambda path: path.name)
def test_only_the_partition_sets_its_fields(path: Path) -> None:
    assert from_outside(path.read_text(encoding="utf-8")) == []
