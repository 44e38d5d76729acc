"""Workers of one Connect group are killed while somebody changes their connectors: `make connect-faults`.

Three workers and two clusters of one broker each. In each round connectors are created, changed, paused, stopped,
restarted and removed, and meanwhile workers are killed and started again. Afterwards every worker answers what was
acknowledged last, and that is what runs: a heartbeat connector that is to run beats once a second, and no other one.

After the rounds a worker is killed now and then while nothing changes, and the time is taken until its connectors run
elsewhere.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from faults.connect_group import Group, Round
from faults.connect_take_over import take_over
from harness.cluster import KafkaCluster
from harness.errors import HarnessError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults.connect", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=int, help="repeat the choices of an earlier run (default: a new one)")
    parser.add_argument("--take-overs", type=int, default=3, metavar="N", help="timed (default: %(default)s)")
    parser.add_argument("--sources", type=int, default=1, metavar="N", help="source connectors (default: %(default)s)")
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(100_000) if asked.seed is None else asked.seed
    work = Path(tempfile.mkdtemp(prefix="twinlog-connect-faults-"))
    print(f"seed {seed}: {asked.rounds} rounds; logs and data in {work}", flush=True)
    done: list[Round] = []
    began = time.monotonic()
    failed = False
    try:
        with (
            KafkaCluster("source", work_dir=work / "source") as source,
            KafkaCluster("target", work_dir=work / "target") as target,
            Group(work, source, target, "workers", random.Random(seed), asked.sources) as group,
        ):
            for number in range(1, asked.rounds + 1):
                done.append(group.play(number))
                print(done[-1], flush=True)
                if not done[-1].fine:
                    break
            if asked.sources and len(done) == asked.rounds:
                for _ in range(asked.take_overs):
                    print(f"      {take_over(group)} (load {os.getloadavg()[0]:.1f})", flush=True)
    except (HarnessError, TimeoutError) as error:
        print(f"faults: {error}", file=sys.stderr)
        failed = True
    except KeyboardInterrupt:
        return 130
    fine = not failed and len(done) == asked.rounds and all(one.fine for one in done)
    print(f"seed {seed}, {(time.monotonic() - began) / 60:.1f} min: {'all fine' if fine else 'WRONG'}")
    if fine:
        shutil.rmtree(work, ignore_errors=True)
    else:
        print(f"logs and data are in {work}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
