"""Where `twinlog` begins, also as `python -m twinlog`: from here on a signal ends it with one line."""

from __future__ import annotations

import sys

from twinlog.cli.signals import end_at_once


def main() -> None:
    """The console script's entry."""
    words = sys.argv[1:]
    # Who waits for the end of `--until` has to learn that it did not come.
    end_at_once("twinlog", serves=words[:1] == ["run"] and not any(word.startswith("--until") for word in words))
    from twinlog.cli.main import app  # noqa: PLC0415 - only now

    app(prog_name="twinlog")


if __name__ == "__main__":
    main()
