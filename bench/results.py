"""Both systems' figures of an item side by side, with the ratio that was wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from statistics import median

from bench.connect import ConnectFigures
from bench.copying import CopyFigures
from bench.items import Wanted
from bench.latency import LatencyFigures
from bench.limit import LimitFigures
from bench.scale import ScaleFigures

Figures = CopyFigures | LatencyFigures | ScaleFigures | ConnectFigures
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


SHARE = "share_of_limit"


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


def _line(figure: str, mm2: float, twinlog: float, wanted: Wanted | None) -> Line:
    # Nothing can be compared where there is no figure: PSS is only known on Linux, and not everything happens in time.
    ratio = twinlog / mm2 if mm2 and twinlog and isfinite(mm2) and isfinite(twinlog) else None
    if wanted is None:
        return Line(figure, mm2, twinlog, ratio)
    return Line(figure, mm2, twinlog, ratio, str(wanted), None if ratio is None else wanted.met(ratio))
