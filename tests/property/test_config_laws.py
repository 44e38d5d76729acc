"""Laws of the configuration: text survives, precedence holds in every combination, nothing crashes the reader."""

from __future__ import annotations

import re
import tempfile
from itertools import permutations
from pathlib import Path

import javaproperties
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlog.config import load
from twinlog.config.keys.table import CONNECTOR, CONSUMER, PRODUCER, WORKER
from twinlog.config.properties import parse_properties
from twinlog.config.security.jaas import parse_jaas
from twinlog.config.text.entries import parse_file
from twinlog.config.text.precedence import resolve_flow
from twinlog.errors import ConfigError, PatternError
from twinlog.mirror.topology.filters import compile_list
from twinlog.model.types import Alias
from twinlog.settings.flow import FlowSettings

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SERVERS = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


@given(st.lists(st.tuples(ANY_TEXT.filter(bool), ANY_TEXT), max_size=8))
def test_text_survives_writing_and_reading(pairs: list[tuple[str, str]]) -> None:
    text = javaproperties.dumps(pairs, timestamp=False, ensure_ascii=True)
    assert [(entry.key, entry.value) for entry in parse_properties(text, "f")] == pairs


@given(st.lists(st.tuples(st.text("ab.", min_size=1, max_size=5), ANY_TEXT), max_size=6), st.data())
def test_each_entry_knows_its_line(pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    lines: list[str] = []
    written: list[int] = []
    for key, value in pairs:
        lines += data.draw(st.lists(st.sampled_from(["", "# c", "! c", "   "]), max_size=3))
        written.append(len(lines) + 1)
        lines += [f"{key} = \\", f"  {javaproperties.escape(value, ensure_ascii=True)}"]
    ending = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    assert [entry.line for entry in parse_properties(ending.join(lines), "f")] == written


KEYS = [
    f"{prefix}{key}"
    for prefix, table in (
        ("", CONNECTOR),
        ("A->B.", CONNECTOR),
        ("A.", WORKER),
        ("B.producer.", PRODUCER),
        ("A.consumer.", CONSUMER),
    )
    for key in table.exact
]
VALUES = st.one_of(
    ANY_TEXT, st.sampled_from(["true", "0", "-1", "SASL_PLAINTEXT", "PLAIN", "${env:X}", "a # b", "(", ""])
)


@given(st.lists(st.tuples(st.one_of(st.sampled_from(KEYS), ANY_TEXT.filter(bool)), VALUES), max_size=12))
@settings(deadline=None)
def test_any_file_loads_or_is_refused_with_reasons(pairs: list[tuple[str, str]]) -> None:
    try:
        flow = _loaded(SERVERS + javaproperties.dumps(pairs, timestamp=False, ensure_ascii=True))
    except ConfigError as refused:
        problems = refused.problems
    else:
        problems = []
        assert flow.name == "A->B"
    assert all(problem.key and problem.expected for problem in problems)


NUMBERS = st.one_of(st.none(), st.integers(1, 1000))


def written(**layers: int | None) -> str:
    return "".join(f"{key} = {value}\n" for key, value in layers.items() if value is not None)


@given(NUMBERS, NUMBERS)
@settings(deadline=None)
def test_a_flow_wins_over_the_top_level_and_that_over_the_default(flow: int | None, top: int | None) -> None:
    text = SERVERS + written(**{"A->B.tasks.max": flow, "tasks.max": top})
    assert _loaded(text).tasks_max == next(value for value in (flow, top, 1) if value is not None)


@given(*[NUMBERS] * 5)
@settings(deadline=None)
def test_the_source_consumer_takes_the_strongest_layer(
    side: int | None, cluster: int | None, flow: int | None, top: int | None, override: int | None
) -> None:
    name = "consumer.fetch.min.bytes"
    text = SERVERS + written(
        **{
            f"A->B.source.{name}": side,
            f"A.{name}": cluster,
            f"A->B.{name}": flow,
            # These two reach nothing.
            name: top,
            "A->B.consumer.override.fetch.min.bytes": override,
        }
    )
    expected = next(value for value in (side, cluster, flow, 1) if value is not None)
    assert _loaded(text).consumer.fetch_min_bytes == expected


@given(*[NUMBERS] * 4)
@settings(deadline=None)
def test_the_producer_takes_the_target_and_its_override(
    override: int | None, cluster: int | None, flow: int | None, source: int | None
) -> None:
    text = SERVERS + written(
        **{
            "A->B.producer.override.batch.size": override,
            "B.producer.batch.size": cluster,
            "A->B.producer.batch.size": flow,
            "A.producer.batch.size": source,
        }
    )
    expected = next(value for value in (override, cluster, 524_288) if value is not None)
    assert _loaded(text).producer.merge_batch_bytes == expected


@given(st.permutations(range(5)), *[NUMBERS] * 5)
@settings(deadline=None)
def test_security_goes_from_client_to_cluster_to_top(
    order: list[int], side: int | None, client: int | None, cluster: int | None, flow: int | None, top: int | None
) -> None:
    """The order of the lines never matters."""
    name = "sasl.kerberos.service.name"
    layers = {
        f"A->B.source.consumer.{name}": side,
        f"A.consumer.{name}": client,
        f"A.{name}": cluster,
        f"A->B.consumer.{name}": flow,
        name: top,
    }
    lines = [f"{key} = {value}\n" if value is not None else "" for key, value in layers.items()]
    text = SERVERS + "".join(lines[index] for index in order)
    found = resolve_flow(parse_file(parse_properties(text, "f"), "f"), Alias("A"), Alias("B")).consumer.get(name)
    expected = next((value for value in (side, client, cluster, top, flow) if value is not None), None)
    assert (None if found is None else int(found.value)) == expected


FLAGS = st.one_of(st.none(), st.sampled_from(["true", "false"]))
PAIRS = list(permutations("ABC", 2))


@given(
    st.lists(FLAGS, min_size=6, max_size=6),
    st.lists(FLAGS, min_size=6, max_size=6),
    FLAGS,
    st.sets(st.sampled_from("ABC")),
)
@settings(deadline=None)
def test_a_flow_runs_when_it_copies_or_has_heartbeats(
    enabled: list[str | None], beats: list[str | None], top: str | None, targets: set[str]
) -> None:
    """The rule of MirrorMakerConfig.clusterPairs and of `--clusters`, for any file that enables a flow."""
    lines = {f"{alias}.bootstrap.servers": f"{alias.lower()}:1" for alias in "ABC"}
    lines |= {"emit.heartbeats.enabled": top} if top else {}
    for (source, target), copies, beat in zip(PAIRS, enabled, beats, strict=True):
        lines |= {f"{source}->{target}.enabled": copies} if copies else {}
        lines |= {f"{source}->{target}.emit.heartbeats.enabled": beat} if beat else {}
    text = "clusters = A, B, C\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())
    expected = {
        f"{source}->{target}": copies == "true"
        for (source, target), copies, beat in zip(PAIRS, enabled, beats, strict=True)
        if (not targets or target in targets) and (copies == "true" or (beat or top or "true") == "true")
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "mm2.properties")
        file.write_text(text)
        try:
            flows = load(file, sorted(targets) or None).flows
        except ConfigError:
            # Nothing runs, or nothing is enabled and nobody asked for heartbeats.
            assert not expected or ("true" not in enabled and not top and not any(beats))
            return
    assert {flow.name: flow.enabled for flow in flows} == expected
    assert [flow.enabled for flow in flows] == sorted((flow.enabled for flow in flows), reverse=True)


def _loaded(text: str) -> FlowSettings:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "mm2.properties")
        file.write_text(text, "latin-1")
        return load(file).flows[0]


SECRETS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12)


@given(SECRETS, SECRETS)
def test_any_login_survives_its_jaas_line(user: str, password: str) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    login = parse_jaas(f"x.PlainLoginModule required username={quoted(user)} password={quoted(password)};")
    assert (login.username, login.password) == (user, password)


@given(st.lists(st.text("ab.*+?()[]{}|^$\\Qd-&i:", min_size=1, max_size=8), min_size=1, max_size=3))
def test_any_expression_compiles_or_is_refused(patterns: list[str]) -> None:
    try:
        compiled = compile_list(tuple(patterns))
    except PatternError:
        return
    assert compiled is not None


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10).filter(lambda text: "\\E" not in text)
)
def test_quoted_text_matches_itself_only(text: str) -> None:
    compiled = compile_list((f"\\Q{text}\\E",)) if "\\" not in text else compile_list((re.escape(text),))
    assert compiled is not None
    assert compiled.matches(text)
    assert not compiled.matches(text + "x")
