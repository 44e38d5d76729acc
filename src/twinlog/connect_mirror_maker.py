"""The entry of `connect-mirror-maker`: a signal ends the process with a single line before anything else is loaded."""

from __future__ import annotations

from twinlog.console.signals import end_at_once


def main() -> None:
    """The console script's entry."""
    end_at_once("connect-mirror-maker", serves=True, reloads=True)
    from twinlog.cli.kafka_scripts import run_mirror_maker as run  # noqa: PLC0415 - only now

    run()


if __name__ == "__main__":
    main()
