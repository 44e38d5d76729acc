"""Threads that Spark keeps of ended queries are ended; those of its daemon are not."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

from twinlog.spark.jvm.internals import _FACTORY_OF, end_useless_threads
from twinlog.spark.jvm.process import JvmErrorOutput


class Thread:
    def __init__(self, name: str, *, daemon: bool) -> None:
        self.interrupted = False
        self._name = name
        setattr(self, _FACTORY_OF, lambda: SimpleNamespace(useDaemonEnabled=lambda: daemon))

    def getName(self) -> str:
        return self._name

    def interrupt(self) -> None:
        self.interrupted = True


def test_only_those_of_processes_that_are_no_daemon() -> None:
    left = Thread("Idle Worker Monitor for /usr/bin/python", daemon=False)
    daemon = Thread("Idle Worker Monitor for /usr/bin/python", daemon=True)
    other = Thread("main", daemon=False)
    stacks = SimpleNamespace(keySet=lambda: {left, daemon, other})
    jvm = SimpleNamespace(
        java=SimpleNamespace(lang=SimpleNamespace(Thread=SimpleNamespace(getAllStackTraces=lambda: stacks)))
    )
    end_useless_threads(cast(Any, SimpleNamespace(sparkContext=SimpleNamespace(_jvm=jvm))))
    assert [one.interrupted for one in (left, daemon, other)] == [True, False, False]


def test_what_the_jvm_prints_of_that_is_no_complaint() -> None:
    complaints = JvmErrorOutput()
    printed = 'Exception in thread "Idle Worker Monitor for python" java.lang.InterruptedException: sleep interrupted'
    assert complaints.level(printed) == logging.DEBUG
    assert complaints.level("\tat java.base/java.lang.Thread.sleep(Native Method)") == logging.DEBUG
    assert complaints.level('Exception in thread "main" java.lang.Error') == logging.WARNING
