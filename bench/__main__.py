"""The command line: `make bench`, `make bench ARGS="--scale 0.1 --only json-1k"`, or `python -m bench`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType

from bench.items.catalogue import LATENCY, NAMES, chosen
from bench.reports.front import write_front
from bench.reports.report import markdown, write
from bench.run import Options, run
from bench.systems import TITLES, SystemName
from harness.errors import HarnessError

EXIT_INTERRUPTED = 130


def main() -> int:
    asked = _arguments()
    try:
        if asked.show is not None:
            document = json.loads(asked.show.read_text(encoding="utf-8"))
            print(markdown(document))
            path = asked.show.with_suffix(".md")
        else:
            whole = set(asked.peers) == set(TITLES) and asked.brokers == 1
            partial = not whole or asked.scale != 1 or asked.latency_seconds < LATENCY.seconds
            work_dir = asked.work_dir or Path(__file__).parent / "work"
            options = Options(
                systems=asked.peers,
                brokers=asked.brokers,
                scale=asked.scale,
                repeat=asked.repeat,
                latency_s=asked.latency_seconds,
                partial=partial,
                work_dir=work_dir.resolve(),
                keep=asked.keep,
                resume=asked.resume,
            )
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, _interrupt)
            document = run(chosen(asked.only, asked.scale, asked.latency_seconds), options)
            path = write(document)
            print(f"\n{markdown(document)}\nWritten to {path} and {path.with_suffix('.json').name} beside it.")
        if asked.write_readme:
            write_front(document, path)
    except (HarnessError, TimeoutError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "bench: interrupted; everything it started has ended. The same command with --resume continues after the "
            "last measured item.",
            file=sys.stderr,
        )
        return EXIT_INTERRUPTED
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__import__("bench").__doc__)
    parser.add_argument("--scale", type=_positive, default=1.0, help="times the number of records (default: 1.0)")
    parser.add_argument("--only", action="append", default=[], choices=NAMES, help="this item; may be given again")
    parser.add_argument(
        "--peers",
        type=_systems,
        default=tuple(TITLES),
        metavar="NAME,...",
        help=f"systems that copy the topics of copy items, of {','.join(TITLES)} (default: all)",
    )
    parser.add_argument(
        "--brokers", type=int, default=1, choices=(1, 3), help="brokers of each cluster, and replicas (default: 1)"
    )
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="copy N times and show medians (default: 1)")
    parser.add_argument(
        "--latency-seconds", type=int, default=LATENCY.seconds, metavar="S", help="default: %(default)s"
    )
    parser.add_argument("--work-dir", type=Path, help="where the brokers' data goes (default: bench/work)")
    parser.add_argument("--keep", action="store_true", help="keep logs and data")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="measure what the last run has not measured, with the same options: it ended early, or had --only",
    )
    parser.add_argument("--show", type=Path, metavar="FILE.json", help="only print an earlier run")
    parser.add_argument(
        "--write-readme",
        action="store_true",
        help="put the table into bench/README.md, the main figures into README.md",
    )
    asked = parser.parse_args()
    if asked.repeat < 1 or asked.latency_seconds < 1:
        parser.error("--repeat and --latency-seconds must be at least 1")
    return asked


def _positive(text: str) -> float:
    number = float(text)
    if number <= 0:
        raise ValueError(text)
    return number


def _systems(text: str) -> tuple[SystemName, ...]:
    """Names with commas between, in the order of the columns."""
    names = set(text.split(","))
    if unknown := names - TITLES.keys():
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(TITLES)}")
    return tuple(system for system in TITLES if system in names)


if __name__ == "__main__":
    sys.exit(main())
