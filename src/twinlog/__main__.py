"""The entry of `twinlog`, also as `python -m twinlog`: from here on a signal ends the process with a single line."""

from __future__ import annotations

import errno
import os
import sys

from twinlog.console.signals import end_at_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_FULL = (errno.ENOSPC, errno.EDQUOT)


def main() -> None:
    """The console script's entry."""
    words = sys.argv[1:]
    # A caller that waits for `--until` has to learn that the process ended before it.
    waited_for = any(word.startswith("--until") for word in words)
    serves = words[:1] in (["run"], ["connect"], ["console"]) and not waited_for
    end_at_once("twinlog", serves=serves, reloads=words[:1] == ["run"])
    from twinlog.cli.main import app  # noqa: PLC0415 - only now

    try:
        app(prog_name="twinlog")
    except SystemExit as end:
        _end(end.code)
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        _refuse(error)


def _refuse(error: OSError) -> NoReturn:
    """The disk of the output is full: standard error gets a single line, if it takes lines."""
    from contextlib import suppress  # noqa: PLC0415 - nothing may come before `end_at_once`

    with suppress(OSError):
        os.write(2, f"twinlog: TW-USE-02: writing the output failed: {error.strerror}\n".encode())
    os._exit(1)


def _end(code: object) -> NoReturn:
    """End at once: a signal during Python's own shutdown would kill the process silently."""
    for stream in (sys.stdout, sys.stderr):
        # The reader of the pipe may have ended.
        try:
            stream.flush()
        except BrokenPipeError:
            pass
        except OSError as error:
            _refuse(error)
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main()
