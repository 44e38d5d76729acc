"""twinlog as a child process: its properties file, its start, and the clean stop it promises."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

from harness.child import Child
from harness.cluster import KafkaCluster
from harness.errors import HarnessError

SOURCE, TARGET = "kafka-1", "kafka-2"
FLOW = f"{SOURCE}->{TARGET}"
PROGRESS_TOPIC = f"mm2-twinlog-progress.{SOURCE}.internal"
STOP_S = 5.0
_LOGIN = re.compile(r"(sasl\.jaas\.config *=).*")


def properties(source: KafkaCluster, target: KafkaCluster, user: str) -> str:
    """What twinlog is given: the file that `connect-mirror-maker` would take as well."""
    return "\n".join(
        [
            f"clusters = {SOURCE}, {TARGET}",
            "",
            source.java_properties(user, f"{SOURCE}."),
            target.java_properties(user, f"{TARGET}."),
            f"{FLOW}.enabled = true",
            f"{FLOW}.topics = .*",
            "",
            "# Each of the two clusters has one broker.",
            "replication.factor = 1",
            "offset.storage.replication.factor = 1",
            "",
        ]
    )


def hidden(text: str) -> str:
    """The same text without logins."""
    return _LOGIN.sub(r"\1 (not shown)", text)


class Mirror:
    """The child process `twinlog run FILE`; `home` takes its log and its temporary files."""

    def __init__(self, file: Path, home: Path) -> None:
        command = Path(sys.executable).with_name("twinlog")
        if not command.is_file():
            raise HarnessError(
                f"{command} is missing: this environment is incomplete. Run `make clean`, then `make demo`."
            )
        # What Spark leaves behind when it is killed goes with the demo's own directory.
        scratch = home / "tmp"
        scratch.mkdir()
        env = {"TMPDIR": str(scratch)}
        self.process = Child("twinlog", [str(command), "run", str(file)], home / "twinlog.log", env)

    def start(self) -> None:
        self.process.start()

    def stop(self) -> tuple[int, float]:
        """SIGTERM; returns the exit code and how many seconds it took. Raises HarnessError after `STOP_S`."""
        began = time.monotonic()
        os.kill(self.process.pid, signal.SIGTERM)
        try:
            code = self.process.wait(STOP_S)
        except TimeoutError:
            self.process.kill()
            raise HarnessError(
                f"twinlog did not end within {STOP_S:g} s of SIGTERM. Its log ends:\n{self.process.log_tail()}"
            ) from None
        return code, time.monotonic() - began

    def close(self) -> None:
        """Stop it whatever state it is in: in order if it can, by force if not."""
        self.process.terminate(STOP_S)
