"""Each key that works is taken over by a running process, or needs a restart: nobody may forget to decide that."""

from __future__ import annotations

import ast
from dataclasses import fields, replace
from pathlib import Path

import pytest

import twinlog
from tests.unit.worker.test_slots import settings
from twinlog.config.keys.key import Effect, Level, UpdateMode
from twinlog.config.keys.table import ALL_KEYS, fields_of, live_fields
from twinlog.settings.flow import FlowSettings
from twinlog.worker.flow.flow_changes import copiers_view

WORKING = [key for key in ALL_KEYS if key.effect is Effect.WORKS]
DECIDED = {Level.PROCESS, Level.FLOW, Level.ONE_FLOW}
OF_TASKS = (
    *("batches", "copier", "kafka", "transforms"),
    *(
        "spark/dataframes/range_reader.py",
        "spark/dataframes/record_appender.py",
        "spark/dataframes/transactions.py",
        "spark/dataframes/writer.py",
    ),
)


def test_every_key_is_classified() -> None:
    undecided = [key.name for key in WORKING if key.level in DECIDED and key.update is None]
    assert not undecided, "give the rows of these keys an `update`"


def test_no_other_key_is_classified() -> None:
    others = [
        key.name for key in ALL_KEYS if key.update is not None and (key not in WORKING or key.level not in DECIDED)
    ]
    assert not others
    assert not [key.name for key in WORKING if key.update is UpdateMode.NOTHING]


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("topics", UpdateMode.AT_ONCE),
        ("topics.blacklist", UpdateMode.AT_ONCE),
        ("sync.group.offsets.enabled", UpdateMode.AT_ONCE),
        ("twinlog.gap.policy", UpdateMode.PAUSE),
        ("tasks.max", UpdateMode.RESTART),
        ("bootstrap.servers", UpdateMode.RESTART),
        ("isolation.level", UpdateMode.RESTART),
        ("errors.retry.timeout", UpdateMode.NOTHING),
    ],
)
def test_what_a_running_process_does_with_a_key(name: str, how: UpdateMode) -> None:
    assert {key.update_mode for key in ALL_KEYS if key.name == name} == {how}


def test_every_live_key_of_a_flow_fills_a_field_that_is_taken_over() -> None:
    for key in WORKING:
        if (
            key.level in (Level.FLOW, Level.ONE_FLOW)
            and key.update_mode is not UpdateMode.RESTART
            and key.name != "enabled"
        ):
            assert fields_of(key), key.name
            assert set(fields_of(key)) <= live_fields().keys()
    assert "enabled" not in live_fields()


def test_fields_that_need_a_restart_are_not_taken_over() -> None:
    for key in WORKING:
        if key.update_mode is UpdateMode.RESTART:
            assert not live_fields().keys() & set(fields_of(key)), key.name


def test_copiers_see_no_field_that_flows_take_over_without_them() -> None:
    """What copiers are started with is the same, so that nothing that is copied is interrupted."""
    plain = settings("a")
    assert copiers_view(plain) == copiers_view(
        replace(
            plain,
            topics=("orders",),
            groups_exclude=(),
            refresh_topics_interval_s=None,
            sync_topic_configs_interval_s=7.0,
            emit_heartbeats_interval_s=9.0,
            renamed_topic_policy="continue",
            class_settings=(("topics", "orders"),),
        )
    )
    for changed in (
        replace(plain, gap_policy="continue"),
        replace(plain, sync_topic_configs_interval_s=None),
        replace(plain, emit_offset_syncs=False),
        replace(plain, tasks_max=3),
    ):
        assert copiers_view(plain) != copiers_view(changed)


def test_copiers_await_no_limit_that_the_flow_does_not_copy() -> None:
    plain = settings("a")
    for excluded, awaited in (("retention.*", True), (r"max\.message\..*", False), (".*", False)):
        seen = copiers_view(replace(plain, config_properties_exclude=("segment.bytes", excluded)))
        assert (seen.sync_topic_configs_interval_s is not None) is awaited


def test_code_of_tasks_reads_no_such_field() -> None:
    """Copiers have the default in its place."""
    hidden = {name for name, (value, there) in live_fields().items() if {value, there} == {UpdateMode.AT_ONCE}}
    hidden |= {"class_settings"}
    assert hidden <= {one.name for one in fields(FlowSettings)}
    root = Path(twinlog.__file__).parent
    read = [
        f"{file}:{node.lineno}: {node.attr}"
        for place in OF_TASKS
        for file in files_of(root / place)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in hidden and _is_settings(node.value)
    ]
    assert not read, "the keys of these fields are to have PAUSE as their `update`"


def files_of(place: Path) -> list[Path]:
    found = [place] if place.is_file() else sorted(place.rglob("*.py"))
    assert found, f"{place} is no place of the package any more"
    return found


def _is_settings(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.strip("_") in ("settings", "flow")
