"""The systems' figures of an item side by side, with the ratios that were wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from statistics import median

from bench.connect.figures import ConnectFigures
from bench.copies.copying import CopyFigures
from bench.copies.limit import LimitFigures
from bench.flows.latency import LatencyFigures
from bench.flows.low_rate import LowRateFigures
from bench.flows.scale import ScaleFigures
from bench.items.goals import SHARE, Goal, Wanted

Figures = CopyFigures | LatencyFigures | LowRateFigures | ScaleFigures | ConnectFigures
Means = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of one item; `ratio` is twinlog / MirrorMaker 2, None where it means nothing.

    `wanted` and `met` are None where nothing is.
    """

    figure: str
    mm2: float | None
    twinlog: float | None
    ratio: float | None = None
    wanted: str | None = None
    met: bool | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was wanted of a figure, such as `>= 1.15 x franz`, and whether it came; None where that is not known."""

    wanted: str
    ratio: float | None
    met: bool | None


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of all systems; a system without the figure is missing in `values`.

    `best` is the best of the others, None where no figure is better than another. The ratios are twinlog / `best` and
    twinlog / MirrorMaker 2.
    """

    figure: str
    values: Mapping[str, float]
    best: str | None
    to_best: float | None
    to_mm2: float | None
    verdicts: tuple[Verdict, ...]


MORE_IS_BETTER = frozenset({"records_per_s", "mb_per_s", SHARE, "produce_kb", "fetch_kb"})


def medians(runs: Sequence[Figures | LimitFigures]) -> dict[str, float]:
    """Each figure's median over the runs."""
    every = [asdict(run) for run in runs]
    numbers = [figure for figure, value in every[0].items() if isinstance(value, int | float)]
    return {figure: median(run[figure] for run in every) for figure in numbers}


def compare(mm2: Means, twinlog: Means, wanted: Mapping[str, Wanted], limit: Means | None) -> list[Line]:
    """A line for each figure that both have, and the shares of the brokers' own limit."""
    lines = [_line(figure, mm2[figure], twinlog[figure], wanted.get(figure)) for figure in mm2 if figure in twinlog]
    if limit is not None:
        most = limit["records_per_s"]
        shares = mm2["records_per_s"] / most, twinlog["records_per_s"] / most
        lines.insert(1, Line(SHARE, *shares))
    return lines


def alone(figures: Means, wanted: Mapping[str, Wanted]) -> list[Line]:
    """A line for each figure of twinlog that is compared with nothing but what was wanted of it."""
    lines = []
    for figure, value in figures.items():
        bound = wanted.get(figure)
        met = None if bound is None else bound.met(value)
        lines.append(Line(figure, None, value, None, None if bound is None else str(bound), met))
    return lines


def compare_all(systems: Mapping[str, Means], goals: Sequence[Goal], limit: Means | None) -> list[Row]:
    """A row for each figure, of the systems that have it, and the shares of the brokers' own limit.

    A goal is missed if twinlog has no figure, and not judged if the system that it names has none.
    """
    figures = list(dict.fromkeys(figure for means in systems.values() for figure in means))
    values = {figure: {name: means[figure] for name, means in systems.items() if figure in means} for figure in figures}
    if limit is not None and "records_per_s" in values:
        shares = {name: value / limit["records_per_s"] for name, value in values["records_per_s"].items()}
        at = figures.index("records_per_s") + 1
        figures.insert(at, SHARE)
        values[SHARE] = shares
    for goal in goals:
        if goal.figure not in values and not (goal.figure == SHARE and limit is None):
            figures.append(goal.figure)
            values[goal.figure] = {}
    return [_row(figure, values[figure], goals) for figure in figures]


def _row(figure: str, values: Mapping[str, float], goals: Sequence[Goal]) -> Row:
    others = {name: value for name, value in values.items() if name != "twinlog"}
    pick = max if figure in MORE_IS_BETTER else min
    best = pick(others, key=others.__getitem__, default=None)
    mine = values.get("twinlog")
    verdicts = tuple(_judged(goal, mine, values) for goal in goals if goal.figure == figure)
    return Row(figure, values, best, _ratio(mine, others.get(best or "")), _ratio(mine, others.get("mm2")), verdicts)


def _judged(goal: Goal, mine: float | None, values: Mapping[str, float]) -> Verdict:
    if goal.of is None:
        return Verdict(str(goal.wanted), None, mine is not None and goal.wanted.met(mine))
    ratio = _ratio(mine, values.get(goal.of))
    met = False if mine is None else None if ratio is None else goal.wanted.met(ratio)
    return Verdict(f"{goal.wanted} x {goal.of}", ratio, met)


def _ratio(mine: float | None, other: float | None) -> float | None:
    # PSS is 0 where it is not known.
    return mine / other if mine and other and isfinite(mine) and isfinite(other) else None


def _line(figure: str, mm2: float, twinlog: float, wanted: Wanted | None) -> Line:
    # Nothing can be compared where there is no figure: PSS is only known on Linux, and not everything happens in time.
    ratio = _ratio(twinlog, mm2)
    if wanted is None:
        return Line(figure, mm2, twinlog, ratio)
    return Line(figure, mm2, twinlog, ratio, str(wanted), None if ratio is None else wanted.met(ratio))
