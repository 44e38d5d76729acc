"""Asks a cluster a second time what it did not answer at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin

T = TypeVar("T")


def ask_twice(cluster: ClusterAdmin, look: Callable[[], T]) -> T:
    """What `look` returns, the second time where a cluster that is connected did not answer.

    By the time that a broker which hangs is given up, another one leads in its place. Raises ClusterError, and
    RefusedError at once.
    """
    try:
        return look()
    except RefusedError:
        raise
    except ClusterError:
        if not cluster.client.connected:
            raise
    return look()
