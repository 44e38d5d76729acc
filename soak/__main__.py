"""The command line: `make soak`, `make soak ARGS="--minutes 60"`, or `python -m soak`."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from types import FrameType
from typing import get_args

from bench.reports.report import markdown, write
from bench.stage.progress import say
from faults.scene import Mode
from harness.errors import HarnessError
from soak.document import document
from soak.run import Outcome, Wish, soak

FILLED = 1_000_000
EXIT_INTERRUPTED = 130


def main() -> int:
    asked = _arguments()
    seed = random.SystemRandom().randrange(100_000) if asked.seed is None else asked.seed
    home = Path(tempfile.mkdtemp(prefix="twinlog-soak-", dir=asked.work_dir))
    outcome = Outcome(Wish(asked.minutes, seed, asked.mode, asked.filled, home, asked.prove))
    say(f"seed {seed}, {asked.minutes:g} minutes, {asked.mode}; logs and data in {home}")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    status = 1
    try:
        soak(outcome)
        status = 0 if outcome.fine else 1
    except (HarnessError, TimeoutError) as error:
        outcome.trouble.append(f"It ended early: {error}")
        print(f"soak: {error}", file=sys.stderr)
    except Exception as error:
        # An hour's figures are not lost for it.
        outcome.trouble.append(f"It ended early: {error!r}")
        traceback.print_exc()
    except KeyboardInterrupt:
        outcome.trouble.append("It was interrupted.")
        status = EXIT_INTERRUPTED
    _print(outcome, keep=asked.keep or status == 1)
    return status


def _print(outcome: Outcome, *, keep: bool) -> None:
    found = document(outcome)
    print(f"\n{markdown(found)}")
    if outcome.rounds is not None and outcome.rounds.done:
        path = write(found, "soak")
        print(f"Written to {path} and {path.with_suffix('.json').name} beside it.")
    if keep:
        print(f"evidence, logs and data are in {outcome.wish.home}")
    else:
        shutil.rmtree(outcome.wish.home, ignore_errors=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # The second time it ends at once, report or not.
    signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__import__("soak").__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, metavar="M", help="of load (default: %(default)g)")
    parser.add_argument("--seed", type=int, help="repeat the choices of an earlier run (default: a new one)")
    parser.add_argument("--mode", choices=get_args(Mode), default="default", help="default: %(default)s")
    parser.add_argument(
        "--filled",
        type=int,
        default=FILLED,
        metavar="N",
        help="records of earlier months in each internal topic (default: %(default)s)",
    )
    parser.add_argument("--prove", action="store_true", help="with the proof of equality; each alarm is a fault")
    parser.add_argument("--work-dir", type=Path, help="where the brokers' data goes (default: the temporary directory)")
    parser.add_argument("--keep", action="store_true", help="keep logs and data of a run without faults")
    asked = parser.parse_args()
    if asked.minutes <= 0:
        parser.error("--minutes must be more than 0")
    return asked


if __name__ == "__main__":
    sys.exit(main())
