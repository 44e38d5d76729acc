"""The entry of `connect-distributed`: a signal ends the process with a single line before anything else is loaded."""

from __future__ import annotations

from twinlog.console.signals import end_at_once


def main() -> None:
    """The console script's entry."""
    end_at_once("connect-distributed", serves=True)
    from twinlog.cli.kafka_scripts import run_distributed  # noqa: PLC0415 - only now

    run_distributed()


if __name__ == "__main__":
    main()
