"""The differences of two clusters as lines for people."""

from __future__ import annotations

from collections.abc import Sequence

from twinlog.ops.diff.differences import ClusterDifference
from twinlog.ops.plan.plan_lines import limited

_SECTIONS = (
    ("topics", ("topic", "partitions", "replicas")),
    ("settings", ("setting",)),
    ("ACLs", ("acl",)),
    ("quotas", ("quota",)),
    ("SCRAM users", ("user",)),
    ("consumer groups", ("group", "lag")),
)


def diff_lines(
    left: str, right: str, compared: str, found: Sequence[ClusterDifference], *, everything: bool = False
) -> list[str]:
    """The differences, in sections; each section is shortened unless `everything` is set."""
    if not found:
        return [f"{left} and {right}: no difference ({compared})"]
    lines = [f"{left} | {right}: {len(found)} difference{'' if len(found) == 1 else 's'} ({compared})"]
    for title, kinds in _SECTIONS:
        section = [f"    {_line(one, left, right)}" for one in found if one.kind in kinds]
        if section:
            lines += [f"  {title}", *limited(section, everything)]
    return lines


def _line(one: ClusterDifference, left: str, right: str) -> str:
    what = one.what if one.detail is None else f"{one.what}: {one.detail}"
    if one.kind == "acl":
        return f"- {what}: only on {left}" if one.right is None else f"+ {what}: only on {right}"
    if one.right is None:
        return f"- {what}: {one.left} on {left}, none on {right}"
    if one.left is None:
        return f"+ {what}: none on {left}, {one.right} on {right}"
    more = f" {one.kind}" if one.kind in ("partitions", "replicas") else ""
    return f"~ {what}: {one.left} | {one.right}{more}"
