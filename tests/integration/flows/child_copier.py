"""A copier in a process of its own, to be killed: `python -m tests.integration.flows.child_copier`, reads settings."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.copier_reports import copy_partitions
from twinlog.copier.copier import Copier
from twinlog.copier.partition.context import CopierListener
from twinlog.kafka.net.loop import Loop
from twinlog.lease.messages import Grant
from twinlog.settings.flow import FlowSettings

ROOT = Path(__file__).parents[3]


class ChildCopier:
    """Copies what it was granted until it is killed; nothing that it sent is taken back then."""

    def __init__(self, settings: FlowSettings, grants: Sequence[Grant]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.flows.child_copier"], cwd=ROOT, stdin=subprocess.PIPE
        )
        assert self._process.stdin is not None
        pickle.dump((settings, list(grants)), self._process.stdin)
        self._process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait(60)
        assert self._process.stdin is not None
        self._process.stdin.close()


def main() -> None:
    settings, grants = pickle.load(sys.stdin.buffer)
    loop = Loop()
    loop.net.start()
    copier = Copier(loop, settings, CopierListener())
    loop.run(copier.start)
    loop.run(copy_partitions, copier, grants)
    # Until it is killed, or whoever started it is gone.
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
