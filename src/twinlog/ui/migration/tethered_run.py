"""`python -m twinlog.ui.migration.tethered_run FILE` is `twinlog run FILE` as long as its standard input is open.

The console holds the other end of this pipe. The system closes the pipe at the end of the console, however the console
ends, and the run then ends in order, as by SIGTERM.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def end_with_input() -> None:
    """End this process by SIGTERM once its standard input ends."""

    def wait_end() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_end, name="tether", daemon=True).start()


if __name__ == "__main__":
    end_with_input()
    sys.argv = ["twinlog", "run", *sys.argv[1:]]
    runpy.run_module("twinlog", run_name="__main__")
