"""What is wrong with `transforms` and `predicates`: every mistake has its line, its key and the way out."""

from __future__ import annotations

import pytest

from tests.unit.config.said import said
from twinlog.config.keys.scope import KeyNames
from twinlog.config.keys.table import CONNECTOR
from twinlog.config.properties import parse_properties
from twinlog.config.smt.chain import read_chain
from twinlog.config.smt.kinds import PACKAGE, TRANSFORMS
from twinlog.config.text.config_reader import ConfigReader, Problems
from twinlog.config.text.precedence import FlowLayers
from twinlog.errors.mistakes import ConfigWarning
from twinlog.model.types import Alias
from twinlog.settings.transform import SmtChain, SmtConverter, SmtPredicate, SmtStage
from twinlog.transforms.smt.chain import smt_transform

ROUTE = f"transforms = r\ntransforms.r.type = {PACKAGE}RegexRouter\n"
MASK = f"transforms = m\ntransforms.m.type = {PACKAGE}MaskField$Value\ntransforms.m.fields = a\n"
A, B = Alias("a"), Alias("b")
LITERAL = "transforms.h.value.literal = [1]\n"
JSON = "value.converter = org.apache.kafka.connect.json.JsonConverter\n"


def read(text: str) -> tuple[SmtChain | None, list[str], list[str]]:
    entries = parse_properties("".join(f"a->b.{line}\n" for line in text.splitlines()), "mm2.properties")
    problems = Problems([])
    warnings: list[ConfigWarning] = []
    # A blank would end the key: the separator is the flow's own.
    layer = {entry.key.removeprefix("a->b."): entry for entry in entries}
    layers = FlowLayers(A, B, layer, {}, {}, {}, {}, {}, KeyNames(A, B))
    chain = read_chain(ConfigReader(layer, CONNECTOR, problems), layers, "mm2.properties", warnings)
    return chain, list(said(problems.all())), list(said(warnings))


def test_a_chain_with_its_predicate_is_read() -> None:
    chain, problems, warnings = read(
        ROUTE
        + "transforms.r.regex = a\\\\.(\\\\p{Alpha}+)\ntransforms.r.replacement = $1\n"
        + "transforms.r.predicate = p\ntransforms.r.negate = TRUE\n"
        + f"predicates = p\npredicates.p.type = {PACKAGE}predicates.HasHeaderKey\npredicates.p.name = x\n"
    )
    assert (problems, warnings) == ([], [])
    predicate = SmtPredicate("p", "HasHeaderKey", (("name", "x"),))
    settings = (("regex", r"a\.(\p{Alpha}+)"), ("replacement", "$1"))
    assert chain == SmtChain((SmtStage("r", "RegexRouter", "", settings, predicate, negate=True),))


def test_a_flow_without_transforms_has_no_chain() -> None:
    assert read("transforms =\n") == (None, [], [])
    assert read(JSON) == (None, [], [])


@pytest.mark.parametrize(
    ("text", "converter"),
    [
        (MASK + JSON, SmtConverter("json", schemas=True)),
        (MASK + JSON + "value.converter.schemas.enable = false\n", SmtConverter("json", schemas=False)),
        (MASK + "value.converter = org.apache.kafka.connect.storage.StringConverter\n", SmtConverter("text")),
    ],
)
def test_the_converter_of_the_flow_reads_fields(text: str, converter: SmtConverter) -> None:
    chain, problems, _ = read(text)
    assert problems == []
    assert chain is not None
    assert (chain.key, chain.value) == (None, converter)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("transforms = x, x\n", ":1: a->b.transforms: 'x, x' is invalid; write names that differ"),
        ("transforms = x\n", ":1: a->b.transforms.x.type: missing; write the class of the transform 'x'"),
        (
            "transforms = x\ntransforms.x.type = com.example.Scrub\n",
            ":2: a->b.transforms.x.type: 'com.example.Scrub' is an unknown transform; write a transform of Connect",
        ),
        ("transforms = x\ntransforms.x.type = com.example.Scrub\n", "a->b.transform = package.module:function"),
        (
            f"transforms = x\ntransforms.x.type = {PACKAGE}MaskField\n",
            f"write {PACKAGE}MaskField$Key or {PACKAGE}MaskField$Value",
        ),
        ("transforms = x\ntransforms.x.type = RegexRouter\n", f"write {PACKAGE}RegexRouter"),
        (ROUTE, ":2: a->b.transforms.r.regex: missing"),
        (ROUTE + "transforms.r.regx = a\n", "RegexRouter lacks a setting 'regx'; did you mean transforms.r.regex?"),
        (
            ROUTE + "transforms.r.regex = (\ntransforms.r.replacement = x\n",
            ":3: a->b.transforms.r.regex: an unclosed parenthesis",
        ),
        (ROUTE + "transforms.r.regex = a\ntransforms.r.replacement = $1\n", ":4: a->b.transforms.r.replacement: '$1'"),
        (ROUTE + "transforms.s.regex = a\n", "transforms lacks 's'; write any of r, or name it there"),
        ("transforms.s.regex = a\n", "transforms lacks 's'; write an absent key"),
        (
            MASK + JSON + "transforms.m.negate = true\n",
            ":5: a->b.transforms.m.negate: the predicate to negate is missing",
        ),
        (MASK + JSON + "transforms.m.predicate = p\n", "a->b.transforms.m.predicate: predicates lacks 'p'"),
        (MASK + JSON + "transforms.m.replace.null.with.default = 1\n", "'1' is invalid; write true"),
        (MASK, ":2: a->b.value.converter: missing; write a->b.value.converter = org.apache.kafka.connect.json.Json"),
        (
            MASK + "value.converter = org.apache.kafka.connect.converters.ByteArrayConverter\n",
            "because MaskField works on fields of the value",
        ),
        (MASK + JSON + "value.converter.schema.content = {}\n", "lacks a setting 'schema.content' here"),
        ("predicates = p\npredicates.p.type = com.example.P\n", "'com.example.P' is an unknown predicate"),
        (
            f"transforms = t\ntransforms.t.type = {PACKAGE}TimestampRouter\ntransforms.t.timestamp.format = YYYY\n",
            "'YYYY' counts weeks",
        ),
        (
            f"transforms = i\ntransforms.i.type = {PACKAGE}InsertField$Value\ntransforms.i.offset.field = o\n" + JSON,
            "a source connector lacks an offset at this point",
        ),
        (
            f"transforms = i\ntransforms.i.type = {PACKAGE}InsertField$Value\n" + JSON,
            ":2: a->b.transforms.i.type: InsertField that lacks a field",
        ),
        (
            f"transforms = s\ntransforms.s.type = {PACKAGE}SetSchemaMetadata$Value\ntransforms.s.schema.name = N\n"
            + JSON
            + "value.converter.schemas.enable = false\n",
            "SetSchemaMetadata, but schemas are off",
        ),
        (
            f"transforms = h\ntransforms.h.type = {PACKAGE}InsertHeader\ntransforms.h.header = h\n{LITERAL}",
            "Connect reads a list or a map here",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, found: str) -> None:
    _, problems, _ = read(text)
    assert any(found in problem for problem in problems), problems


def test_every_mistake_is_named_at_once() -> None:
    _, problems, _ = read(
        ROUTE + "transforms.r.regex = (\ntransforms.r.x = 1\ntransforms.r.negate = 2\npredicates = p\n"
    )
    keys = [problem.split(": ")[1] for problem in problems]
    assert sorted(keys) == [
        "a->b.predicates.p.type",
        "a->b.transforms.r.negate",
        "a->b.transforms.r.negate",
        "a->b.transforms.r.replacement",
        "a->b.transforms.r.x",
    ]


def test_a_predicate_that_nobody_asks_for_is_a_warning() -> None:
    _, problems, warnings = read(
        MASK + JSON + f"predicates = p\npredicates.p.type = {PACKAGE}predicates.RecordIsTombstone\n"
    )
    assert problems == []
    assert warnings == ["mm2.properties:5: a->b.predicates: all transforms ignore 'p'"]


def test_every_transform_that_is_named_can_be_applied() -> None:
    for kind in TRANSFORMS.values():
        settings = tuple((key.name, _sample(key.name)) for key in kind.keys)
        chain = SmtChain((SmtStage("x", kind.name, "value" if kind.sides else "", settings),))
        assert callable(smt_transform(chain))


def _sample(name: str) -> str | int | bool | tuple[str, ...] | None:
    lists = ("fields", "headers", "exclude", "include")
    samples = {"spec": ("a:int8",), "renames": ("a:b",), "replace.null.with.default": True, "schema.version": 1}
    found = {"target.type": "unix", "unix.precision": "seconds", "field.syntax.version": "V1", "operation": "move"}
    dates = {"timestamp.format": "yyyy", "format": "yyyy"}
    return ("a",) if name in lists else {**samples, **found, **dates}.get(name, "a")  # type: ignore[return-value]
