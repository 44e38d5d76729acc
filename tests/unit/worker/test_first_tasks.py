"""With how many tasks a flow begins."""

from __future__ import annotations

from dataclasses import replace

from twinlog.settings.transform import TransformSettings
from twinlog.spark.warm_up import SETTINGS
from twinlog.worker.flow_tasks import first_tasks


def test_a_local_flow_begins_with_one_task_and_with_two_where_records_are_changed() -> None:
    changed = replace(SETTINGS, transform=TransformSettings(function="package.module:function"))
    assert first_tasks(SETTINGS, local=True) == 1
    assert first_tasks(changed, local=True) == 2


def test_a_flow_on_a_cluster_begins_with_all_tasks_that_it_may_have() -> None:
    assert first_tasks(SETTINGS, local=False) is None
