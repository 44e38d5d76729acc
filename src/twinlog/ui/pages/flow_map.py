"""The map of the overview: a box for each cluster and an arrow with a label for each flow, as numbers for an SVG.

The same flows always have the same map, whatever their figures: a new reading changes only the looks of arrows and the
texts of labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import cos, hypot, inf, pi, sin
from typing import Any, NamedTuple

Data = dict[str, Any]
FlowEnds = tuple[str, str]
"""The source and the target of a flow."""

MOST_CLUSTERS, MOST_FLOWS = 12, 24
"""A larger map is unreadable: the page has the list and the table alone."""

ACROSS = 275.0
"""The distance of the outermost boxes from the middle of the map; all lengths are in units of the SVG."""

BOX_WIDTH, BOX_HEIGHT = 150.0, 40.0
LABEL_WIDTH, LABEL_HEIGHT = 142.0, 38.0
ROW = 96.0
"""The least distance of two boxes of a column."""

LANE = 46.0
"""The distance of two arrows between the same clusters, so that both labels have room."""

MARGIN, GAP = 10.0, 3.0
HEAD_LENGTH, HEAD_WIDTH = 11.0, 5.0

_SHARES = (0.5, *(0.5 + sign * step * 0.06 for step in range(1, 7) for sign in (-1, 1)))
"""The places of a label along its arrow, the best place first."""


class MapPoint(NamedTuple):
    """A place on the map; y grows downwards."""

    x: float
    y: float

    def toward(self, other: MapPoint, share: float) -> MapPoint:
        """The point at a share of the way to another point."""
        return MapPoint(self.x + (other.x - self.x) * share, self.y + (other.y - self.y) * share)


@dataclass(frozen=True, slots=True)
class MapArrow:
    """A flow as a quadratic curve from the border of a box to the border of another box."""

    begin: MapPoint
    control: MapPoint
    end: MapPoint

    def point_at(self, share: float) -> MapPoint:
        """The point of the curve at a share of the way from its begin."""
        return self.begin.toward(self.control, share).toward(self.control.toward(self.end, share), share)

    @property
    def _direction(self) -> MapPoint:
        """The direction of the curve at its end, of length 1."""
        dx, dy = self.end.x - self.control.x, self.end.y - self.control.y
        length = hypot(dx, dy) or 1.0
        return MapPoint(dx / length, dy / length)

    @property
    def _neck(self) -> MapPoint:
        """The end of the line, at the base of the head."""
        along = self._direction
        return MapPoint(self.end.x - along.x * HEAD_LENGTH, self.end.y - along.y * HEAD_LENGTH)

    @property
    def line(self) -> str:
        """The curve up to the head of the arrow, as the path of an SVG."""
        return f"M{_written(self.begin)}Q{_written(self.control)} {_written(self._neck)}"

    @property
    def head(self) -> str:
        """The head of the arrow, as the path of an SVG."""
        along, back = self._direction, self._neck
        left = MapPoint(back.x - along.y * HEAD_WIDTH, back.y + along.x * HEAD_WIDTH)
        right = MapPoint(back.x + along.y * HEAD_WIDTH, back.y - along.x * HEAD_WIDTH)
        return f"M{_written(self.end)}L{_written(left)}L{_written(right)}Z"


def flow_map(rows: Sequence[Data]) -> Data | None:
    """The map of the overview's flows as values of JSON; the arrows have the order of the flows.

    None without a flow, and for more than `MOST_CLUSTERS` clusters or `MOST_FLOWS` flows.
    """
    ends: list[FlowEnds] = [(row["source"], row["target"]) for row in rows]
    clusters = list(dict.fromkeys(name for pair in ends for name in pair))
    if not rows or len(clusters) > MOST_CLUSTERS or len(rows) > MOST_FLOWS:
        return None
    places = cluster_places(clusters, ends)
    arrows = flow_arrows(places, ends)
    labels = label_places(places.values(), arrows)
    return {
        "view": _view(places.values(), arrows, labels),
        "cluster_size": [BOX_WIDTH, BOX_HEIGHT],
        "label_size": [LABEL_WIDTH, LABEL_HEIGHT],
        "clusters": [
            {"cluster": name, "x": round(at.x - BOX_WIDTH / 2, 1), "y": round(at.y - BOX_HEIGHT / 2, 1)}
            for name, at in places.items()
        ],
        "arrows": [
            {
                "flow": row["flow"],
                "look": _look(row),
                "line": arrow.line,
                "head": arrow.head,
                "x": round(at.x - LABEL_WIDTH / 2, 1),
                "y": round(at.y - LABEL_HEIGHT / 2, 1),
            }
            for row, arrow, at in zip(rows, arrows, labels, strict=True)
        ],
    }


def cluster_places(clusters: Sequence[str], ends: Sequence[FlowEnds]) -> dict[str, MapPoint]:
    """The middle of each cluster's box: in two columns if every flow leads from a column to the other, otherwise on a
    ring."""
    columns = _columns(clusters, ends)
    if columns is None:
        # Rings of many flows need room for the labels in their middle.
        down = 60.0 + 26.0 * len(clusters) + 12.0 * len(ends)
        turns = (2 * pi * number / len(clusters) for number in range(len(clusters)))
        return {
            name: MapPoint(ACROSS * sin(turn), -down * cos(turn)) for name, turn in zip(clusters, turns, strict=True)
        }
    most = max(Counter(frozenset(pair) for pair in ends).values())
    longest = max(map(len, columns))
    # Near the box of a hub all arrows are close together, so that its labels need more than a lane each.
    lanes = LANE * most * (1.7 if longest > 1 and most > 1 else 1.0) + 8.0
    height = max(ROW, lanes) * longest
    return {
        name: MapPoint(x, height * ((number + 0.5) / len(column) - 0.5))
        for x, column in zip((-ACROSS, ACROSS), columns, strict=True)
        for number, name in enumerate(column)
    }


def _columns(clusters: Sequence[str], ends: Sequence[FlowEnds]) -> tuple[Sequence[str], Sequence[str]] | None:
    """Sources and targets apart, or a hub beside all other clusters; None for every other shape."""
    sources, targets = ({pair[side] for pair in ends} for side in (0, 1))
    if sources.isdisjoint(targets):
        return [name for name in clusters if name in sources], [name for name in clusters if name in targets]
    hubs = (name for name in clusters if all((source == name) != (target == name) for source, target in ends))
    hub = next(hubs, None)
    return None if hub is None else ([hub], [name for name in clusters if name != hub])


def flow_arrows(places: Mapping[str, MapPoint], ends: Sequence[FlowEnds]) -> list[MapArrow]:
    """The curve of each flow; several flows between two clusters lie beside each other."""
    order = {name: number for number, name in enumerate(places)}
    many = Counter(frozenset(pair) for pair in ends)
    before: Counter[frozenset[str]] = Counter()
    found = []
    for source, target in ends:
        pair = frozenset((source, target))
        lane = before[pair] - (many[pair] - 1) / 2
        before[pair] += 1
        here, there = places[source], places[target]
        if source == target:
            top, side = here.y - BOX_HEIGHT / 2 - GAP, BOX_WIDTH / 4
            control = MapPoint(here.x, top - 2 * LANE * before[pair])
            found.append(MapArrow(MapPoint(here.x - side, top), control, MapPoint(here.x + side, top)))
            continue
        # Both directions bend from the same side, so that a flow and its way back have lanes of their own.
        first, second = sorted((source, target), key=order.__getitem__)
        dx, dy = places[second].x - places[first].x, places[second].y - places[first].y
        bend = 2 * lane * LANE / hypot(dx, dy)
        middle = here.toward(there, 0.5)
        control = MapPoint(middle.x - dy * bend, middle.y + dx * bend)
        found.append(MapArrow(_border(here, control), control, _border(there, control)))
    return found


def _border(middle: MapPoint, toward: MapPoint) -> MapPoint:
    """The point at the border of a box, on the line from its middle to another point."""
    across, down = abs(toward.x - middle.x), abs(toward.y - middle.y)
    share = min((BOX_WIDTH / 2 + GAP) / across if across else inf, (BOX_HEIGHT / 2 + GAP) / down if down else inf, 1.0)
    return middle.toward(toward, share)


def label_places(boxes: Collection[MapPoint], arrows: Sequence[MapArrow]) -> list[MapPoint]:
    """The middle of each label: the first place along its arrow that is free of boxes and of earlier labels, otherwise
    the place with the least overlap."""
    width, height = (LABEL_WIDTH + BOX_WIDTH) / 2, (LABEL_HEIGHT + BOX_HEIGHT) / 2
    found: list[MapPoint] = []
    for arrow in arrows:
        best, least = arrow.point_at(0.5), inf
        for at in map(arrow.point_at, _SHARES):
            covered = sum(overlap(at, one, width, height) for one in boxes)
            covered += sum(overlap(at, one, LABEL_WIDTH, LABEL_HEIGHT) for one in found)
            if covered < least:
                best, least = at, covered
            if not covered:
                break
        found.append(best)
    return found


def overlap(one: MapPoint, other: MapPoint, width: float, height: float) -> float:
    """The common area of two boxes, whose middles must be `width` or `height` apart to have none."""
    return max(0.0, width - abs(one.x - other.x)) * max(0.0, height - abs(one.y - other.y))


def _view(boxes: Collection[MapPoint], arrows: Sequence[MapArrow], labels: Sequence[MapPoint]) -> list[int]:
    """The left and the upper edge of the map, its width and its height."""
    corners = [(at, BOX_WIDTH / 2, BOX_HEIGHT / 2) for at in boxes]
    corners += [(at, LABEL_WIDTH / 2, LABEL_HEIGHT / 2) for at in labels]
    corners += [(arrow.point_at(step / 8), 0.0, 0.0) for arrow in arrows for step in range(9)]
    left = min(-ACROSS - BOX_WIDTH / 2, *(at.x - across for at, across, _ in corners)) - MARGIN
    right = max(ACROSS + BOX_WIDTH / 2, *(at.x + across for at, across, _ in corners)) + MARGIN
    top = min(at.y - down for at, _, down in corners) - MARGIN
    bottom = max(at.y + down for at, _, down in corners) + MARGIN
    return [round(left), round(top), round(right - left), round(bottom - top)]


def _look(row: Data) -> str:
    """The class of an arrow: the condition of its flow, `held` for a running flow with held partitions."""
    figures = row["figures"]
    if row["condition"] == "running" and figures is not None and figures["held"]["partitions"]:
        return "held"
    return str(row["condition"]).replace(" ", "-")


def _written(at: MapPoint) -> str:
    return f"{at.x:.1f} {at.y:.1f}"
