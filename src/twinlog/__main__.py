"""Where `twinlog` begins, also as `python -m twinlog`: from here on a signal ends it with one line."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

from twinlog.cli.signals import end_at_once


def main() -> None:
    """The console script's entry."""
    words = sys.argv[1:]
    # Who waits for the end of `--until` has to learn that it did not come.
    waited_for = any(word.startswith("--until") for word in words)
    end_at_once("twinlog", serves=words[:1] in (["run"], ["connect"]) and not waited_for)
    from twinlog.cli.main import app  # noqa: PLC0415 - only now

    try:
        app(prog_name="twinlog")
    except SystemExit as end:
        _end(end.code)


def _end(code: object) -> NoReturn:
    """End at once: while Python takes itself apart a signal would end the process without a line."""
    for stream in (sys.stdout, sys.stderr):
        # Who read them may have gone.
        with suppress(BrokenPipeError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main()
