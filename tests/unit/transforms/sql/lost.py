"""Evaluations whose JVM has ended, what they are given, and a machine without room for another one."""

from __future__ import annotations

import errno
import os
import threading
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from twinlog.batches.arrow.arrays import schema
from twinlog.errors import EngineLostError

ROWS = pa.RecordBatch.from_pylist(
    [
        {
            "key": b"k",
            "value": b"v",
            "topic": "east.orders",
            "partition": 0,
            "offset": 10,
            "timestamp": 1_000_000,
            "timestampType": 0,
            "headers": None,
        }
    ],
    schema=schema(headers=True),
)


def rows_from(offset: int, count: int) -> Any:
    row = ROWS.to_pylist()[0]
    return pa.RecordBatch.from_pylist([{**row, "offset": offset + n} for n in range(count)], schema=ROWS.schema)


class Ended:
    """An evaluation whose JVM has ended."""

    def __init__(
        self, *, hung: bool = False, busy: bool = False, full: bool = False, stuck_at: int | None = None
    ) -> None:
        self.stuck_at = stuck_at
        self.jvm = SimpleNamespace(
            condemned=False, hung_for_me=lambda: hung, busy=busy, out_of_memory=lambda: full, hung=hung
        )

    def __call__(self, rows: Any) -> Any:
        raise EngineLostError("Spark's JVM for transform.sql was killed by SIGKILL")

    def close(self) -> None:
        pass


class WithoutRoom:
    """Has no room on its disk for what another JVM needs, for a while."""

    answer_s, clock = 1.0, SimpleNamespace(sleep=lambda seconds: None)

    def __init__(self, tries: int) -> None:
        self.left = tries

    def running(self) -> Any:
        if self.left:
            self.left -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return SimpleNamespace()


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
