"""What came of a soak, in the form in which benchmarks are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from bench.reports.machine import describe
from bench.reports.report import Document
from bench.reports.results import Line
from faults.rounds import Round
from faults.scene import BROKERS, PARTITIONS, TOPICS
from harness.checks.checker import Verdict
from soak.run import HEAP, RATES, Outcome, as_json

LONGER_S = 5.0
"""What a start and a take-over may take longer for full internal topics."""
WHOLE_MINUTES = 60
NOTES = f"""
Two clusters of {BROKERS} brokers (heap {HEAP}) and twinlog on one machine; {len(TOPICS)} topics of {PARTITIONS} \
partitions, three replicas of each. Two topics get {min(RATES)} to {max(RATES)} records/s, changed with each round; \
the third gets transactions, four of ten rolled back; the remote topic of one stamps records with LogAppendTime. With \
`--prove` two more topics get records: both clusters compact one, and delete those of the other after a \
minute.

In each round something goes wrong while load runs (those of `make faults`), then load rests, every record of the \
round is compared, and the position of a consumer group. In the second half nothing ends a process of twinlog, so \
that some live for long; the slope of memory is of the process of its kind that lived longest, without its first \
minute.

Internal topics hold what months leave: the given number of records in each, under keys of 2,000 partitions that are \
no longer mirrored, never compacted.

A start counts from starting the process to the first record on the target; a take-over from SIGKILL of one process \
to the first record from another that stood by, warm.

At rest nothing is written; CPU and requests are what twinlog does by itself. Requests are counted by the brokers, \
those of brokers among each other are left out.
"""


def document(outcome: Outcome) -> Document:
    """The whole result as JSON knows it."""
    notes = [part.replace("\n", " ") for part in NOTES.strip().split("\n\n")]
    minutes = outcome.ran_s / 60
    return {
        "title": "A soak of twinlog",
        "columns": ("empty topics", "full topics"),
        "machine": asdict(describe()),
        "partial": minutes < WHOLE_MINUTES or bool(outcome.trouble),
        "part": f"{minutes:.0f} minutes",
        "notes": [*notes, *outcome.trouble],
        "minutes": round(minutes, 1),
        **as_json(outcome),
        "items": [item for item in _items(outcome) if item["lines"]],
    }


def _items(outcome: Outcome) -> Iterable[Document]:
    yield _item("start", f"{outcome.wish.filled:,} records in each internal topic", _starts(outcome))
    done = outcome.rounds.done if outcome.rounds else []
    yield _item("records", f"{outcome.wish.minutes:g} minutes, seed {outcome.wish.seed}", _judged(done))
    if outcome.proof is not None:
        judged = {"unproven", "differences", "alarms"}
        figures_of_proof = asdict(outcome.proof)
        yield _item(
            "proof",
            "the proof of equality, at rest",
            [
                _zero(name, value) if name in judged else Line(name, None, value)
                for name, value in figures_of_proof.items()
            ],
        )
    for role, figures in outcome.roles.items():
        lines = [Line(name, None, value) for name, value in asdict(figures).items() if value is not None]
        if role in outcome.idle_cpu:
            lines.append(Line("idle_cpu", None, outcome.idle_cpu[role]))
        yield _item(role, "processes of twinlog", lines)
    for broker, rates in outcome.idle_requests.items():
        own = {kind: rate for kind, rate in rates.items() if kind != "FetchFollower"}
        most = ", ".join(f"{kind} {rate:g}" for kind, rate in sorted(own.items(), key=lambda one: -one[1])[:4])
        yield _item(broker, f"at rest; {most}", [Line("idle_requests_per_s", None, sum(own.values()))])
    if outcome.idle_requests:
        yield _item("loops", "requests at rest", [_zero("loops", len(outcome.loops))])
    if outcome.ran_s:
        hours = outcome.ran_s / 3600
        yield _item("log", "lines of all processes", [Line("log_lines_per_h", None, outcome.log_lines / hours)])
        for topic, grown in outcome.grown.items():
            rates = {"records_per_h": grown.records / hours, "mb_per_h": grown.disk / 1e6 / hours}
            yield _item(topic, "growth", _plain(rates))


def _starts(outcome: Outcome) -> list[Line]:
    empty, full = outcome.empty, outcome.full
    lines = []
    if empty and full:
        for figure, before, now in (
            ("start_s", empty.start_s, full.start_s),
            ("take_over_s", empty.take_over_s, full.take_over_s),
        ):
            lines.append(_bounded(figure, before, now))
        if outcome.take_over_used_s is not None:
            lines.append(_bounded("take_over_used_s", empty.take_over_s, outcome.take_over_used_s))
    return lines


def _bounded(figure: str, empty: float, full: float) -> Line:
    most = empty + LONGER_S
    return Line(figure, empty, full, full / empty, f"<= {most:.1f}", met=full <= most)


def _judged(done: list[Round]) -> list[Line]:
    if not done:
        return []
    verdict = sum((one.verdict for one in done), Verdict())
    return [
        Line("rounds", None, len(done)),
        Line("records", None, sum(one.records for one in done)),
        *(_zero(name, count) for name, count in asdict(verdict).items()),
        _zero("group_skipped", sum(one.group.skipped for one in done)),
        _zero("group_missing", sum(one.group.missing for one in done)),
        _zero("rounds_wrong", sum(not one.fine for one in done)),
        Line("longest_s", None, max(one.recovered_s for one in done)),
    ]


def _zero(figure: str, count: float) -> Line:
    return Line(figure, None, count, None, "0", met=count == 0)


def _plain(figures: Mapping[str, float]) -> list[Line]:
    return [Line(name, None, value) for name, value in figures.items()]


def _item(name: str, title: str, lines: list[Line]) -> Document:
    return {"name": name, "title": title, "lines": [asdict(line) for line in lines]}
