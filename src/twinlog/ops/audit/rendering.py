"""The report of an audit for people, as lines and as HTML: counts and the verdict first, then findings by importance.

The HTML is a single file, free of scripts and of requests to other addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from twinlog.model.amounts import counted, shown_moment
from twinlog.ops.audit.report import AuditReport, Finding, PartResult, Severity, counts

MOST_LINES = 5
"""The details of a finding to print, unless all are wanted."""

TITLES = {Severity.CRITICAL: "Critical", Severity.WARNING: "Warnings", Severity.NOTE: "Notes"}


def report_lines(report: AuditReport, *, everything: bool = False) -> list[str]:
    """The report; each finding has `MOST_LINES` details at most, or all with `everything`."""
    findings = report.findings
    lines = [f"audit of {report.file} at {shown_moment(report.at_ms)}: {summary(findings)}", report.verdict]
    for severity, title in TITLES.items():
        some = [one for one in findings if one.severity is severity]
        if some:
            lines += ["", title.upper()]
            for one in some:
                lines += _finding_lines(one, report, everything)
    if report.not_audited:
        lines += ["", "NOT AUDITED"]
        several = len(report.flows) > 1
        for flow, part in report.not_audited:
            of_flow = f"{flow}: " if several else ""
            lines.append(f"  {of_flow}{part.part}: {_extent(part)} audited: {part.not_audited}")
    lines += ["", "AUDITED"]
    for audit in report.flows:
        lines.append(f"  {audit.flow}" + (f" ({audit.runner})" if audit.runner else ""))
        lines += [f"    {part.part}: {part.scope}" for part in audit.parts if part.scope]
    return lines


def _extent(part: PartResult) -> str:
    """A part with a scope is also among the audited parts."""
    return "partly" if part.scope else "not"


def summary(findings: Sequence[Finding]) -> str:
    """How many findings there are of each severity."""
    found = counts(findings)
    return (
        f"{found[Severity.CRITICAL]} critical, {counted(found[Severity.WARNING], 'warning')}, "
        f"{counted(found[Severity.NOTE], 'note')}"
    )


def _finding_lines(one: Finding, report: AuditReport, everything: bool) -> list[str]:
    flow = f"{one.flow}: " if one.flow and len(report.flows) > 1 else ""
    shown = one.lines if everything else one.lines[:MOST_LINES]
    more = len(one.lines) - len(shown)
    return [
        f"  {_id(one)}{one.part}: {flow}{one.text}",
        *(f"    {line}" for line in shown),
        *([f"    and {more} more lines (--all, -o json)"] if more else []),
        f"    way out: {one.way_out}",
    ]


def _id(one: Finding) -> str:
    return "" if one.id is None else f"{one.id}: "


_STYLE = """\
:root { color-scheme: light dark; --line: #8884; --dim: #777; }
:root { --critical: #b3261e; --warning: #8a5a00; --note: #2b6cb0; }
@media (prefers-color-scheme: dark) { :root { --critical: #ff8a80; --warning: #ffc66d; --note: #90c2ff; --dim: #aaa; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.verdict { font-size: 1.15rem; border-left: .3rem solid var(--line); padding-left: .8rem; }
.counts span { display: inline-block; margin-right: 1.2rem; font-weight: 600; }
.critical { color: var(--critical); } .warning { color: var(--warning); } .note { color: var(--note); }
.finding { border-top: 1px solid var(--line); padding: .7rem 0; }
.finding p { margin: .2rem 0; } .part { color: var(--dim); font-size: .85rem; }
ul { margin: .3rem 0; padding-left: 1.3rem; } li, code { font-family: ui-monospace, monospace; font-size: .85rem; }
table { border-collapse: collapse; } td, th { border-bottom: 1px solid var(--line); padding: .3rem .8rem .3rem 0;
  text-align: left; vertical-align: top; }
"""


def report_html(report: AuditReport) -> str:
    """The whole file. Names of topics, groups and keys are escaped: the creator of a topic chooses its name."""
    findings = report.findings
    numbers = "".join(
        f'<span class="{severity.name.lower()}">{count} {TITLES[severity].lower()}</span>'
        for severity, count in counts(findings).items()
    )
    body = [
        f"<h1>Audit of {escape(report.file)}</h1>",
        f'<p class="part">{escape(shown_moment(report.at_ms))}</p>',
        f'<p class="verdict">{escape(report.verdict)}</p>',
        f'<p class="counts">{numbers}</p>',
    ]
    for severity, title in TITLES.items():
        some = [one for one in findings if one.severity is severity]
        if some:
            body.append(f"<h2>{title}</h2>")
            body += [_finding_html(one) for one in some]
    if report.not_audited:
        rows = (
            (flow, part.part.value, f"{_extent(part)} audited: {part.not_audited}") for flow, part in report.not_audited
        )
        body += ["<h2>Not audited</h2>", _table(("flow", "part", "reason"), rows)]
    scopes = ((flow.flow, part.part.value, part.scope) for flow in report.flows for part in flow.parts if part.scope)
    body += ["<h2>Audited</h2>", _table(("flow", "part", "scope"), scopes)]
    body += [f'<p class="part">{escape(f"{flow.flow}: {flow.runner}")}</p>' for flow in report.flows if flow.runner]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Audit of {escape(report.file)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _finding_html(one: Finding) -> str:
    flow = f"{one.flow} · " if one.flow else ""
    lines = "".join(f"<li>{escape(line)}</li>" for line in one.lines)
    return (
        f'<div class="finding"><p class="part">{escape(_id(one) + flow + one.part.value)}</p>'
        f'<p class="{one.severity.name.lower()}">{escape(one.text)}</p>'
        + (f"<ul>{lines}</ul>" if lines else "")
        + f"<p>Way out: {escape(one.way_out)}</p></div>"
    )


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    first = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{first}</tr>{body}</table>"
