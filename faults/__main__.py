"""The command line: `make faults`, `make faults ARGS="--rounds 100 --seed 7"`, or `python -m faults`."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import get_args

from faults.kinds import FAULTS, left_out
from faults.rounds import Round, Rounds, summary
from faults.scene import FILLED, Mode, Scene
from harness.errors import HarnessError

EXIT_INTERRUPTED = 130


def main() -> int:
    asked = _arguments()
    seed = random.SystemRandom().randrange(100_000) if asked.seed is None else asked.seed
    modes: list[Mode] = list(get_args(Mode)) if asked.mode == "both" else [asked.mode]
    work = Path(tempfile.mkdtemp(prefix="twinlog-faults-"))
    print(f"seed {seed}: {asked.rounds} rounds, {' and '.join(modes)}; logs and data in {work}", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    fine = False
    summaries = []
    began = time.monotonic()
    try:
        every: list[Round] = []
        for mode in modes:
            with Scene(work / mode, mode, filled=asked.filled) as scene:
                missing = left_out(scene)
                for fault, reason in missing.items():
                    print(f"{fault} is left out: {reason}", flush=True)
                kinds = [fault for fault in asked.only or FAULTS if fault not in missing]
                rounds = Rounds(scene, seed, work / "evidence" / mode, kinds)
                try:
                    rounds.run(-(-asked.rounds // len(modes)))
                finally:
                    every += rounds.done
                    if rounds.done:
                        summaries.append(summary(mode, rounds.done))
        fine = len(every) >= asked.rounds and all(one.fine for one in every)
    except (HarnessError, TimeoutError) as error:
        print(f"faults: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        print("\n".join(summaries))
        print(f"seed {seed}, {(time.monotonic() - began) / 60:.1f} min: {'all fine' if fine else 'WRONG'}")
        if fine and not asked.keep:
            shutil.rmtree(work, ignore_errors=True)
        else:
            print(f"evidence, logs and data are in {work}")
    return 0 if fine else 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__import__("faults").__doc__)
    parser.add_argument("--rounds", type=int, default=100, metavar="N", help="default: %(default)s, over all modes")
    parser.add_argument("--seed", type=int, help="repeat the choices of an earlier run (default: a new one)")
    parser.add_argument("--mode", choices=[*get_args(Mode), "both"], default="both", help="default: %(default)s")
    parser.add_argument("--only", action="append", default=[], choices=list(FAULTS), help="may be given again")
    parser.add_argument(
        "--filled",
        type=int,
        default=FILLED,
        metavar="N",
        help="records of earlier months in each internal topic (default: %(default)s)",
    )
    parser.add_argument("--keep", action="store_true", help="keep logs and data of a run without faults")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
