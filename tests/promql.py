"""Evaluates queries of dashboards and rules of alerts against scrapes: PromQL as far as these use it.

The grammar is that of `promql_parser`, which refuses what Prometheus refuses. Where the real `promtool` is installed,
`tests/unit/worker/metrics/test_exposition.py` has it judge the same files.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import promql_parser as promql
from prometheus_client.parser import text_string_to_metric_families

Labels = tuple[tuple[str, str], ...]
Vector = dict[Labels, float]

LOOK_BACK_S = 300.0
_MATCH: dict[str, Callable[[str, str], bool]] = {
    "MatchOp.Equal": operator.eq,
    "MatchOp.NotEqual": operator.ne,
    "MatchOp.Re": lambda found, pattern: re.fullmatch(pattern, found) is not None,
    "MatchOp.NotRe": lambda found, pattern: re.fullmatch(pattern, found) is None,
}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
_COUNT: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda one, other: one / other if other else math.nan,
}
_GATHER: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "max": max,
    "min": min,
    "count": lambda values: float(len(values)),
    "avg": lambda values: sum(values) / len(values),
    "group": lambda values: 1.0,
}


class Scrapes:
    """Samples of several moments, in seconds, to which every series has these labels added, as Prometheus adds them."""

    def __init__(self, **labels: str) -> None:
        self._labels = labels
        self._series: dict[Labels, list[tuple[float, float]]] = {}
        self.now = 0.0

    def add(self, at: float, page: str) -> None:
        """A scrape of `/metrics`, newer than those before."""
        self.now = at
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                self.put(at, sample.name, sample.value, **sample.labels)

    def put(self, at: float, name: str, value: float, **labels: str) -> None:
        """One sample."""
        self.now = max(self.now, at)
        key = tuple(sorted({"__name__": name, **self._labels, **labels}.items()))
        self._series.setdefault(key, []).append((at, value))

    def query(self, text: str) -> Vector:
        """What a query gives now, without the name of a metric. Raises ValueError for what is no PromQL."""
        found = self._value(promql.parse(text), self.now)
        return found if isinstance(found, dict) else {(): found}

    def _value(self, node: Any, at: float) -> Any:
        match type(node).__name__:
            case "NumberLiteral":
                return float(node.val)
            case "ParenExpr":
                return self._value(node.expr, at)
            case "UnaryExpr":
                return {labels: -value for labels, value in self._value(node.expr, at).items()}
            case "VectorSelector":
                return {labels: samples[-1][1] for labels, samples in self._select(node, at, LOOK_BACK_S) if samples}
            case "AggregateExpr":
                return self._aggregate(node, at)
            case "Call":
                return self._call(node, at)
            case "BinaryExpr":
                return self._binary(node, at)
        raise NotImplementedError(type(node).__name__)

    def _select(self, node: Any, at: float, seconds: float) -> Iterable[tuple[Labels, list[tuple[float, float]]]]:
        until = at - (node.offset.total_seconds() if node.offset else 0)
        for key, samples in self._series.items():
            labels = dict(key)
            if (node.name is None or labels["__name__"] == node.name) and all(
                _MATCH[str(one.op)](labels.get(one.name, ""), one.value) for one in node.matchers.matchers
            ):
                yield _without(key, "__name__"), [one for one in samples if until - seconds <= one[0] <= until]

    def _call(self, node: Any, at: float) -> Any:
        name, args = node.func.name, list(node.args)
        if name == "time":
            return at
        if name == "absent":
            return {} if self._value(args[0], at) else {(): 1.0}
        if name == "histogram_quantile":
            return _quantile(self._value(args[0], at), self._value(args[1], at))
        if name == "label_replace":
            label, text, source, pattern = (one.val for one in args[1:])
            return {
                _replaced(labels, label, text, source, pattern): value
                for labels, value in self._value(args[0], at).items()
            }
        if name in ("clamp_min", "clamp_max"):
            bound = max if name == "clamp_min" else min
            least = self._value(args[1], at)
            return {labels: bound(value, least) for labels, value in self._value(args[0], at).items()}
        if name in _OVER_TIME:
            ranged = args[0]
            seconds = ranged.range.total_seconds()
            found = self._select(ranged.vector_selector, at, seconds)
            results = ((labels, _OVER_TIME[name](samples)) for labels, samples in found if samples)
            return {labels: value for labels, value in results if value is not None}
        raise NotImplementedError(name)

    def _aggregate(self, node: Any, at: float) -> Vector:
        name = str(node.op)
        groups: dict[Labels, dict[Labels, float]] = {}
        for labels, value in self._value(node.expr, at).items():
            groups.setdefault(_grouped(labels, node.modifier), {})[labels] = value
        if name == "topk":
            most = int(self._value(node.param, at))
            return {
                labels: value
                for group in groups.values()
                for labels, value in sorted(group.items(), key=lambda one: one[1], reverse=True)[:most]
            }
        return {labels: _GATHER[name](list(group.values())) for labels, group in groups.items()}

    def _binary(self, node: Any, at: float) -> Any:
        name = str(node.op)
        left, right = self._value(node.lhs, at), self._value(node.rhs, at)
        modifier = node.modifier
        if not isinstance(left, dict) and not isinstance(right, dict):
            return _COUNT[name](left, right)
        if not isinstance(left, dict) or not isinstance(right, dict):
            return _with_number(name, left, right, as_bool=bool(modifier and modifier.return_bool))
        matching = modifier.matching if modifier else None
        others = {_matched(labels, matching): value for labels, value in right.items()}
        if name == "and":
            return {labels: value for labels, value in left.items() if _matched(labels, matching) in others}
        if name == "unless":
            return {labels: value for labels, value in left.items() if _matched(labels, matching) not in others}
        if name == "or":
            there = {_matched(labels, matching) for labels in left}
            return left | {labels: value for labels, value in right.items() if _matched(labels, matching) not in there}
        pairs = [
            (labels, value, others[key])
            for labels, value in left.items()
            if (key := _matched(labels, matching)) in others
        ]
        many = modifier is not None and "ManyToOne" in str(modifier.card)
        if name in _COMPARE:
            return {labels: value for labels, value, other in pairs if _COMPARE[name](value, other)}
        return {
            labels if many else _matched(labels, matching): _COUNT[name](value, other) for labels, value, other in pairs
        }


def _with_number(name: str, left: Any, right: Any, *, as_bool: bool) -> Vector:
    vector = left if isinstance(left, dict) else right

    def sides(value: float) -> tuple[float, float]:
        return (value, right) if isinstance(left, dict) else (left, value)

    if name not in _COMPARE:
        return {labels: _COUNT[name](*sides(value)) for labels, value in vector.items()}
    if as_bool:
        return {labels: float(_COMPARE[name](*sides(value))) for labels, value in vector.items()}
    return {labels: value for labels, value in vector.items() if _COMPARE[name](*sides(value))}


def _replaced(labels: Labels, label: str, text: str, source: str, pattern: str) -> Labels:
    found = re.fullmatch(pattern, dict(labels).get(source, ""))
    if found is None:
        return labels
    return tuple(sorted({**dict(labels), label: found.expand(text.replace("$", "\\"))}.items()))


def _without(labels: Labels, *names: str) -> Labels:
    return tuple(one for one in labels if one[0] not in names)


def _grouped(labels: Labels, modifier: Any) -> Labels:
    if modifier is None:
        return ()
    if "By" in str(modifier.type):
        return tuple(one for one in labels if one[0] in modifier.labels)
    return _without(labels, *modifier.labels)


def _matched(labels: Labels, matching: Any) -> Labels:
    if matching is None:
        return labels
    if "Include" in str(matching.type):
        return tuple(one for one in labels if one[0] in matching.labels)
    return _without(labels, *matching.labels)


def _increase(samples: Sequence[tuple[float, float]]) -> float | None:
    if len(samples) < 2:
        return None
    grown = 0.0
    for (_, before), (_, after) in itertools.pairwise(samples):
        grown += after - before if after >= before else after
    return grown


def _rate(samples: Sequence[tuple[float, float]]) -> float | None:
    grown = _increase(samples)
    return None if grown is None else grown / (samples[-1][0] - samples[0][0])


def _changes(samples: Sequence[tuple[float, float]]) -> float:
    return float(sum(one[1] != other[1] for one, other in itertools.pairwise(samples)))


_OVER_TIME: dict[str, Callable[[Sequence[tuple[float, float]]], float | None]] = {
    "rate": _rate,
    "increase": _increase,
    "changes": _changes,
    "delta": lambda samples: None if len(samples) < 2 else samples[-1][1] - samples[0][1],
    "max_over_time": lambda samples: max(value for _, value in samples),
    "min_over_time": lambda samples: min(value for _, value in samples),
}


def _quantile(share: float, buckets: Vector) -> Vector:
    groups: dict[Labels, list[tuple[float, float]]] = {}
    for labels, value in buckets.items():
        groups.setdefault(_without(labels, "le"), []).append((float(dict(labels)["le"]), value))
    found: Vector = {}
    for labels, counts in groups.items():
        counts.sort()
        rank = share * counts[-1][1]
        below, so_far = 0.0, 0.0
        for bound, count in counts:
            if count >= rank:
                inside = (rank - so_far) / (count - so_far) if count > so_far else 0.0
                found[labels] = below if math.isinf(bound) else below + (bound - below) * inside
                break
            below, so_far = bound, count
    return found
