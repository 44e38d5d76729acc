"""Runs files of MirrorMaker 2 as they are found in public, by it and by twinlog, and compares what both left.

Each file is run by the real MirrorMaker 2 (its dedicated process, or connectors on a worker of Kafka's) and by twinlog
between the same three clusters: topics with their settings, records, positions, groups and checkpoints are compared.
Ends with 1 when twinlog does not start with a file that MirrorMaker 2 starts with, or something differs that is not
meant.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from conformance.corpus.cases import CASES
from conformance.corpus.play import Verdict, play
from conformance.corpus.scene import Scene
from conformance.corpus.stock import STOCK
from harness.checks.differences import readable
from harness.errors import HarnessError

KINDS = (("topic .*: partitions",), ("records of ",), ("group ", "checkpoint in "))
"""Facts that are counted in the table, by the beginning of their names."""

EXAMPLE = """example: python -m conformance.corpus --only empty-alias connect-empty-alias
         make conformance ARGS="--suite corpus --only empty-alias\""""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m conformance.corpus",
        description=__doc__,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [case.name for case in CASES]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="NAME", help="files to run; see --list"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the files and what each is like")
    parser.add_argument("--logs", action="store_true", help="leave the logs of all runs, and print where")
    args = parser.parse_args(arguments)
    if args.list:
        for case in CASES:
            print(f"{case.name:24} {case.shape:10} {case.what}")
        return 0
    home = Path(tempfile.mkdtemp(prefix="twinlog-corpus-"))
    verdicts, failed = play_all([case.name for case in CASES if case.name in args.only], home)
    print("\n" + table(verdicts))
    for text in failed:
        print(text)
    wrong = [one for one in verdicts if one.wrong]
    print(f"\n{len(verdicts)} files: {len(wrong) or 'none'} that twinlog does not run as MirrorMaker 2 does")
    if args.logs or wrong or failed:
        print(f"Logs: {home}")
    else:
        shutil.rmtree(home, ignore_errors=True)
    return 1 if wrong or failed else 0


def play_all(names: Sequence[str], home: Path) -> tuple[list[Verdict], list[str]]:
    """Play cases one after the other; what could not be judged is a line in words."""
    cases = [case for case in CASES if case.name in names]
    needed = {cluster for case in cases for cluster in case.clusters}
    verdicts, failed = [], []
    with Scene(home / "files", [name for name in STOCK if name in needed]) as scene:
        for number, case in enumerate(cases, start=1):
            print(f"[{number}/{len(cases)}] {case.name} ...", flush=True)
            began = time.monotonic()
            try:
                verdict = play(case, scene, home / case.name)
            except HarnessError as error:
                failed.append(f"{case.name}: not judged: {error}")
                print(f"    not judged: {error}", flush=True)
                continue
            verdicts.append(verdict)
            print(f"    {verdict.word}, {time.monotonic() - began:.0f} s", flush=True)
            if verdict.wrong:
                found = readable(verdict.found, "MirrorMaker 2", "twinlog")
                print(found or f"    {verdict.twinlog.refusal}", flush=True)
    return verdicts, failed


def table(verdicts: Sequence[Verdict]) -> str:
    """One line for each case."""
    rows: list[tuple[str, ...]] = [
        ("file", "shape", "MirrorMaker 2", "twinlog", "topics", "records", "groups", "verdict")
    ]
    for one in verdicts:
        kinds = [_count(one, kinds) for kinds in KINDS]
        starts = ["starts" if ran.starts else "refuses" for ran in (one.mm2, one.twinlog)]
        rows.append((one.case.name, one.case.shape, *starts, *kinds, one.word))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    reasons = [
        f"{one.case.name}: {known.reason}" for one in verdicts for known in one.case.meant if known in one.used
    ] + [f"{one.case.name}: {one.case.what}" for one in verdicts if one.case.endless]
    return "\n".join([*lines, *(f"    as meant: {reason}" for reason in reasons)])


def _count(verdict: Verdict, kinds: tuple[str, ...]) -> str:
    """How many facts of these kinds MirrorMaker 2 left."""
    facts = (fact.split(": ", 1)[1] for fact in verdict.mm2.facts)
    return str(sum(re.match(kind, fact) is not None for fact in facts for kind in kinds))
