"""`python -m conformance`: asks workers every call of the suite and compares what they answer.

A worker is compared with the answers that were kept of its release, and the kept answers of the releases with each
other. Ends with 1 when something differs and `meant.py` does not say why. After a whole run of a
worker it names the explanations there that explained nothing.

With `--suite corpus` it runs the other suite, which has options of its own: `--suite corpus --help` (`corpus/`).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from conformance.compare import between, golden_answers, idle, is_late, with_golden
from conformance.corpus.command import main as corpus
from conformance.golden import Kept, golden_file, write
from conformance.meant import MEANT, NEWER, RELEASES
from conformance.play import by_arrangement, play
from conformance.resources import RESOURCES
from conformance.scene import scene
from conformance.stage import Resource, Stage
from conformance.worker import WORKERS, Kind
from harness.checks.differences import Known, readable


def main() -> int:
    suites = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    suites.add_argument("--suite", choices=("rest", "corpus"), default="rest")
    suite, arguments = suites.parse_known_args()
    if suite.suite == "corpus":
        return corpus(arguments)
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__, parents=[suites])
    names = [one.name for one in RESOURCES]
    parser.add_argument(
        "--workers", nargs="*", choices=WORKERS, help="which workers are asked: all, or with --renew Kafka's"
    )
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="RESOURCE", help=", ".join(names))
    parser.add_argument("--renew", action="store_true", help="keep the answers as those of the worker's release")
    parser.add_argument("--logs", action="store_true", help="leave the logs of the workers, and print where")
    args = parser.parse_args(arguments)
    workers: Sequence[str] = args.workers or (RELEASES if args.renew else tuple(WORKERS))
    if args.renew and not set(workers) <= set(RELEASES):
        parser.error("--renew keeps what Kafka's own workers answer, and nobody else's")
    chosen = [one for one in RESOURCES if one.name in args.only]
    wrong = 0
    for name in workers:
        used: set[Known] = set()
        found, whole = _ask(WORKERS[name], name, chosen, used, renew=args.renew, logs=args.logs)
        wrong += found
        if whole and len(chosen) == len(RESOURCES):
            explanations = MEANT.get((WORKERS[name].release, name), ())
            _report_idle(name, [one for one in explanations if one not in used])
    if len(chosen) == len(RESOURCES):
        _report_idle("the two releases", idle(*RELEASES, args.only))
    left = between(*RELEASES, args.only)
    if left:
        print(f"\nBetween the releases {len(left)} facts differ and nobody says why:\n{readable(left, *RELEASES)}")
    calls = sum(len(golden_answers(NEWER, name)) for name in args.only)
    print(f"{calls} calls of {len(chosen)} resources: {wrong + len(left) or 'no'} unexplained differences")
    return 1 if wrong + len(left) else 0


def _report_idle(name: str, explanations: Sequence[Known]) -> None:
    """Whoever reads them believes that the worker still answers so."""
    for one in explanations:
        print(f"meant.py: of {name} this explained nothing: {one.facts}\n    {one.reason}", flush=True)


def _ask(
    kind: Kind, name: str, resources: Sequence[Resource], used: set[Known], *, renew: bool, logs: bool
) -> tuple[int, bool]:
    """How many answers differ from the kept ones, or cannot be kept; and whether all could be asked for."""
    home = Path(tempfile.mkdtemp(prefix=f"twinlog-conformance-{name}-"))
    wrong, whole = 0, True
    with scene() as (source, target):
        for group in by_arrangement(resources).values():
            arrangement = group[0].arrangement
            if kind.release not in arrangement.releases:
                continue
            began = time.monotonic()
            print(f"{name}, {arrangement.name} ...", flush=True)
            try:
                with Stage(arrangement, kind.launch, source, target, home / arrangement.name) as stage:
                    for resource, kept in _answers(group, stage, kind.release, name):
                        wrong += _judge(kind, name, resource, kept, used, renew=renew)
            # The others' answers are worth having; this arrangement's are missing from the comparison then.
            except Exception:
                traceback.print_exc()
                wrong, whole = wrong + 1, False
            print(f"    {time.monotonic() - began:.0f} s", flush=True)
    if logs:
        print(f"Logs of {name}: {home}")
    else:
        shutil.rmtree(home, ignore_errors=True)
    return wrong, whole


def _answers(group: Sequence[Resource], stage: Stage, release: str, worker: str) -> Iterator[tuple[str, list[Kept]]]:
    for resource in group:
        began = time.monotonic()
        kept = list(play(resource, stage, release, partial(is_late, release, worker, resource.name)))
        if not resource.leaves:
            stage.clear()
        print(f"    {resource.name}: {len(kept)} calls, {time.monotonic() - began:.0f} s", flush=True)
        yield resource.name, kept


def _judge(kind: Kind, name: str, resource: str, kept: Sequence[Kept], used: set[Known], *, renew: bool) -> int:
    late = [one for one in kept if one.late is not None]
    for one in late:
        print(f"        {one.name}: waited in vain for {one.late}; last: {one.status} {one.body}", flush=True)
    if renew:
        write(kept, golden_file(kind.release, resource))
        return len(late)
    found = with_golden(kind.release, resource, kept, name, used=used)
    if found:
        print(readable(found, f"kept of {kind.release}", name), flush=True)
    return len(found)


if __name__ == "__main__":
    sys.exit(main())
