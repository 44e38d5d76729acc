"""The transform that a file names: imported, tried on an empty batch, refused with the line that names it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.config.own_code import BASE, Writer, modules, read
from tests.unit.config.said import said
from twinlog.config.text.explain import entry_of, explain
from twinlog.errors import ConfigError
from twinlog.settings.transform import TransformSettings

module = modules("own_transforms")


def test_a_flow_has_a_transform_by_name_and_rules_for_what_it_fails_on(tmp_path: Path, module: Writer) -> None:
    name = module("def same(batch):\n    return batch\n")
    config = read(
        tmp_path,
        f"a->b.transform = {name}:same\nerrors.tolerance = all\nerrors.log.enable = true\n"
        "errors.log.include.messages = true\nerrors.deadletterqueue.topic.name = dead\n"
        "errors.deadletterqueue.topic.replication.factor = 1\n"
        "errors.deadletterqueue.context.headers.enable = true\nb->a.enabled = true\n",
    )
    there, back = (pickle.loads(pickle.dumps(flow)) for flow in config.flows)
    assert there.transform == TransformSettings(
        f"{name}:same",
        tolerance="all",
        dead_letter_topic="dead",
        dead_letter_replication_factor=1,
        dead_letter_headers=True,
        log_errors=True,
        log_messages=True,
    )
    assert there.key("transform") == "a->b.transform"
    assert back.transform is None
    assert said(config.warnings) == ()
    assert [one.value for one in explain(tmp_path / "mm2.properties", "transform")] == [f"{name}:same", "(none)"]


def test_a_query_is_read_as_it_is_written_and_starts_nothing(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "transform.sql = SELECT key FROM records \\\n    WHERE value IS NOT NULL\nb->a.enabled = true\n"
        "b->a.transform.sql = SELECT * FROM records\n",
    )
    there, back = (flow.transform for flow in config.flows)
    assert there == TransformSettings(sql="SELECT key FROM records WHERE value IS NOT NULL")
    assert there.shown == "SQL"
    assert there.steps == "SELECT key FROM records WHERE value IS NOT NULL"
    assert back == TransformSettings(sql="SELECT * FROM records")
    assert config.flows[0].written_as("transform.sql") == "a->b.transform.sql"
    entry = entry_of(tmp_path / "mm2.properties", "b->a.transform.sql")
    assert entry is not None
    assert (entry.line, entry.key) == (8, "b->a.transform.sql")


@pytest.mark.parametrize(
    ("code", "function", "complaint"),
    [
        ("", "f", r"own_transforms_\d+:f: the module own_transforms_\d+ lacks a function 'f'"),
        ("f = 3", "f", "is 3, and a function is expected"),
        ("def f(batch): return batch.nothing", "f", "for an empty batch it raises AttributeError: "),
        ("def f(batch): pass", "f", "for an empty batch it returns NoneType instead of pyarrow.RecordBatch"),
        ("def f(batch): return batch.drop_columns(['key'])", "f", "for an empty batch it returns the columns value,"),
        ("import no_such_module_at_all", "f", "importing own_transforms_\\d+ raises ModuleNotFoundError: No module"),
        ("1 / 0", "f", "importing own_transforms_\\d+ raises ZeroDivisionError"),
    ],
)
def test_one_that_cannot_be_used_is_refused_by_its_line(
    tmp_path: Path, module: Writer, code: str, function: str, complaint: str
) -> None:
    name = module(code)
    expected = r"; expected package.module:function, which takes and returns a pyarrow.RecordBatch"
    with pytest.raises(ConfigError, match=r"mm2.properties:5: a->b.transform: .*" + complaint + ".*" + expected):
        read(tmp_path, f"a->b.transform = {name}:{function}\n")


def test_the_form_of_the_name_is_checked(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"mm2.properties:5: transform: 'lambda x: x' is invalid; write a function in Python"
    ):
        read(tmp_path, "transform = lambda x: x\n")
    with pytest.raises(ConfigError, match="the module 'not_here' is missing; install its package, or set PYTHONPATH"):
        read(tmp_path, "transform = not_here:f\n")


def test_dead_letters_need_a_topic_of_the_users_and_tolerance(tmp_path: Path, module: Writer) -> None:
    name = module("def same(batch):\n    return batch\n")
    (warning,) = said(read(tmp_path, f"transform = {name}:same\nerrors.deadletterqueue.topic.name = dead\n").warnings)
    assert warning == (
        f"{tmp_path / 'mm2.properties'}:6: errors.deadletterqueue.topic.name: this topic stays empty, because a "
        "record that fails holds its partition; write errors.tolerance = all"
    )
    with pytest.raises(
        ConfigError, match=r"mm2.properties:6: .*'__dead' is invalid; write a topic other than an internal topic"
    ):
        read(tmp_path, f"transform = {name}:same\nerrors.deadletterqueue.topic.name = __dead\n")


def test_who_copies_unchanged_loads_no_columns(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(BASE, "utf-8")
    code = (
        "import sys; from pathlib import Path; from twinlog.config import load; import twinlog.copier.copier_thread; "
        f"load(Path({str(file)!r})); print(sorted({{'numpy', 'pyarrow', 'twinlog.transforms'}} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
