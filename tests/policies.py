"""Policies of a flow, as a test writes them: one word for all topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlog.settings.per_topic import PerTopic

POLICIES = (
    *("offsets", "gap_policy", "oversized_record_policy", "refused_record_policy"),
    *("proof", "difference_policy"),
)


def with_policies(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a flow, in which a policy may be one word."""
    return {
        name: PerTopic(value) if name in POLICIES and isinstance(value, str | bool) else value
        for name, value in settings.items()
    }
