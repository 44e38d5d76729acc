"""How fast copies are compared with their sources, beside the copying of the same topic in the same run."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import psutil

from bench.copies.copying import CopyFigures, measure_copy
from bench.items.kinds import RepeatedItem
from bench.stage.meter import wait_calm
from bench.systems import COMMAND, Setup
from harness.cluster import KafkaCluster
from harness.errors import HarnessError

DEADLINE_S = 900.0


@dataclass(frozen=True, slots=True)
class Compared:
    """One `twinlog verify`: `verify_s` is from the first partition to the last, `cpu_s` of all processes."""

    records_per_s: float
    verify_s: float
    whole_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class VerifyFigures:
    """Medians of the runs; the ratio is that of records per second compared to those copied."""

    records_per_s_copied: float
    records_per_s_verified: float
    verify_ratio: float
    verify_cpu_s: float
    verify_whole_s: float


def measure_verify(
    item: RepeatedItem,
    source: KafkaCluster,
    target: KafkaCluster,
    work: Path,
    talk: Callable[[str], Callable[[str], None]],
) -> tuple[VerifyFigures, dict[str, list[dict[str, object]]]]:
    """Copy the filled topic `item.copy.name` and compare the copy, so many times."""
    compared: list[Compared] = []
    setup = Setup("twinlog", item.copy.name)
    file = work / "verify.properties"
    file.write_text(setup.properties(source.bootstrap, target.bootstrap), encoding="utf-8")

    def compare() -> None:
        os.sync()
        wait_calm()
        compared.append(_verify(file, item))
        talk("verify")(f"{compared[-1].records_per_s:,.0f} records/s, {compared[-1].cpu_s:.2f} s CPU with the start")

    copied = [measure_copy(item.copy, setup, source, target, work, talk("copy"), compare) for _ in range(item.rounds)]
    return figures_of(copied, compared), {
        "copy": [asdict(one) for one in copied],
        "verify": [asdict(one) for one in compared],
    }


def figures_of(copied: list[CopyFigures], compared: list[Compared]) -> VerifyFigures:
    """What the runs came to."""
    rates = median(one.records_per_s for one in copied), median(one.records_per_s for one in compared)
    return VerifyFigures(
        records_per_s_copied=rates[0],
        records_per_s_verified=rates[1],
        verify_ratio=rates[1] / rates[0],
        verify_cpu_s=median(one.cpu_s for one in compared),
        verify_whole_s=median(one.whole_s for one in compared),
    )


def _verify(file: Path, item: RepeatedItem) -> Compared:
    """Run the command; what it compares must be the whole topic, and equal. Raises HarnessError."""
    before, began = psutil.Process().cpu_times(), time.monotonic()
    done = subprocess.run(
        [COMMAND, "verify", str(file), "--json"], capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    whole, after = time.monotonic() - began, psutil.Process().cpu_times()
    if done.returncode:
        raise HarnessError(f"twinlog verify ended with code {done.returncode}:\n{done.stdout[-2000:]}{done.stderr}")
    answer = json.loads(done.stdout)
    if answer["records"] != item.copy.records:
        raise HarnessError(f"twinlog verify compared {answer['records']} of {item.copy.records} records")
    return Compared(
        records_per_s=answer["records"] / answer["seconds"],
        verify_s=answer["seconds"],
        whole_s=whole,
        cpu_s=after.children_user + after.children_system - before.children_user - before.children_system,
    )
