"""Transforms in each form of a configuration: MirrorMaker 2's file, Strimzi's resource, and connectors of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.config.said import said
from twinlog.cli.main import app
from twinlog.config import load
from twinlog.config.smt.kinds import CONDITIONS, PACKAGE, PREDICATES, TRANSFORMS
from twinlog.config.strimzi.load import load_resource
from twinlog.errors import ConfigError
from twinlog.settings.transform import SmtChain, SmtConverter, SmtPredicate, SmtStage, TransformSettings

FILE = f"""\
clusters = east, west
east.bootstrap.servers = east:9092
west.bootstrap.servers = west:9092
east->west.enabled = true
transforms = dead, mask
east->west.transforms.dead.type = {PACKAGE}Filter
east->west.transforms.dead.predicate = gone
east->west.transforms.dead.negate = false
east->west.transforms.mask.type = {PACKAGE}MaskField$Value
east->west.transforms.mask.fields = iban
east->west.predicates = gone
east->west.predicates.gone.type = {PREDICATES}RecordIsTombstone
value.converter = org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable = false
"""
CHAIN = SmtChain(
    (
        SmtStage("dead", "Filter", "", (), SmtPredicate("gone", "RecordIsTombstone", ())),
        SmtStage(
            "mask",
            "MaskField",
            "value",
            (("fields", ("iban",)), ("replace.null.with.default", True), ("replacement", None)),
        ),
    ),
    value=SmtConverter("json", schemas=False),
)
DOCS = Path(__file__).parents[4] / "docs" / "transforms.md"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return path


def transform_of(path: Path) -> TransformSettings:
    (flow,) = (flow for flow in load(path).flows if flow.enabled)
    assert flow.transform is not None
    return flow.transform


def test_a_file_names_transforms_at_top_level_and_sets_them_below_the_flow(file: Path) -> None:
    assert transform_of(file).smts == CHAIN
    assert said(load(file).warnings) == ()


def test_the_same_chain_comes_out_of_a_resource_that_was_converted(file: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["convert", str(file), "-o", "strimzi", "--output-dir", str(tmp_path / "out")])
    assert done.exit_code == 1, done.output
    (resource,) = (path for path in (tmp_path / "out").rglob("*.yaml") if "sourceConnector" in path.read_text())
    (source,) = (
        one.settings for one in load_resource(resource).flows if one.kind == "source" and one.settings.transform
    )
    assert source.transform is not None
    assert source.transform.smts == CHAIN


def test_the_same_chain_comes_out_of_connectors_that_were_converted(file: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["convert", str(file), "-o", "connectors", "--output-dir", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    home = tmp_path / "out" / "east--west"
    words = ["check", *(str(home / name) for name in ("worker.properties", "MirrorSourceConnector.json"))]
    shown = CliRunner().invoke(app, words)
    steps = "dead (Filter) if gone (RecordIsTombstone), then mask (MaskField$Value)"
    assert f"  transforms {steps}" in shown.output


def test_a_connector_of_checkpoints_transforms_nothing_and_says_so(file: Path, tmp_path: Path) -> None:
    CliRunner().invoke(app, ["convert", str(file), "-o", "connectors", "--output-dir", str(tmp_path / "out")])
    home = tmp_path / "out" / "east--west"
    words = ["check", *(str(home / name) for name in ("worker.properties", "MirrorCheckpointConnector.json"))]
    assert "transforms: ignored, because only records that a flow copies are transformed" in (
        CliRunner().invoke(app, words).output
    )


def test_settings_at_top_level_lead_to_the_flow(file: Path) -> None:
    file.write_text(FILE.replace("east->west.transforms.mask.fields", "transforms.mask.fields"))
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert "mm2.properties:9: east->west.transforms.mask.fields: missing" in str(caught.value)
    assert any("transforms.mask.fields: ignored here; write" in warning for warning in said(caught.value.warnings))


def test_the_documentation_names_every_transform_and_predicate() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for kind in (*TRANSFORMS.values(), *CONDITIONS.values()):
        assert f"`{kind.name}`" in text
