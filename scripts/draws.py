"""`make draws`: the tests that draw and need no broker, with one new seed after the other.

Property tests draw examples, and campaigns in virtual time draw faults. `make test` draws the same each time, so that a
red run is due to the change; here each run draws anew, and more examples of each law. Ends with status 1 at the first
seed that fails, and names it.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time

DRAWN = ("-m", "drawn and not integration", "--hypothesis-profile=patient")


def draw_on(minutes: float, seeds: random.Random, options: list[str]) -> int | None:
    """Run the tests, at least once and until `minutes` have passed; the seed that fails, None when none does."""
    end = time.monotonic() + 60 * minutes
    while True:
        seed = seeds.randrange(1_000_000_000)
        print(f"--randomly-seed={seed}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", *DRAWN, f"--randomly-seed={seed}", *options]
        if subprocess.run(command, check=False).returncode != 0:
            return seed
        if time.monotonic() >= end:
            return None


def main() -> int:
    asked = argparse.ArgumentParser(prog="make draws", description=__doc__)
    asked.add_argument("--minutes", type=float, default=10.0, help="how long; 10 unless given")
    given, options = asked.parse_known_args()
    try:
        failed = draw_on(given.minutes, random.SystemRandom(), options)
    except KeyboardInterrupt:
        return 130
    if failed is not None:
        print(f"--randomly-seed={failed} draws the same again")
    return 0 if failed is None else 1


if __name__ == "__main__":
    sys.exit(main())
