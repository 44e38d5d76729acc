"""What a cluster is asked for, by the tasks and the copiers' budget, and what of the user's own works against that."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from twinlog.spark.settings import (
    CLUSTER_SETTINGS,
    ClusterManager,
    TaskResources,
    contradictions,
    derived,
    manager_of,
    megabytes,
)

K8S, YARN, STANDALONE = "k8s://https://api:6443", "yarn", "spark://m:7077"
DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}
LEAST_ONE = {"spark.dynamicAllocation.minExecutors": "1"}
SMALL = 128 << 20


def sizes(master: str, tasks: int, given: Mapping[str, str] | None = None) -> tuple[str | None, ...]:
    """Executors, the cores of each, and all cores: as derived, or as given."""
    found = {**derived(master, TaskResources(tasks), given or {}), **(given or {})}
    names = ("spark.executor.instances", "spark.executor.cores", "spark.cores.max")
    return tuple(found.get(name) for name in names)


@pytest.mark.parametrize(
    ("master", "manager"),
    [
        ("local[4]", ClusterManager.LOCAL),
        ("local", ClusterManager.LOCAL),
        ("local-cluster[2,1,1024]", ClusterManager.STANDALONE),
        ("spark://a:7077,b:7077", ClusterManager.STANDALONE),
        ("k8s://https://api", ClusterManager.KUBERNETES),
        ("yarn", ClusterManager.YARN),
    ],
)
def test_the_master_names_what_gives_executors(master: str, manager: ClusterManager) -> None:
    assert manager_of(master) is manager


@pytest.mark.parametrize("master", [K8S, YARN])
@pytest.mark.parametrize(
    ("tasks", "executors", "cores"), [(1, "1", "1"), (2, "2", "1"), (3, "2", "2"), (8, "2", "4"), (9, "3", "3")]
)
def test_executors_are_two_at_least_and_hold_all_tasks(master: str, tasks: int, executors: str, cores: str) -> None:
    assert sizes(master, tasks) == (executors, cores, None)


@pytest.mark.parametrize(
    ("given", "executors", "cores"),
    [
        ({"spark.executor.cores": "3"}, "3", "3"),
        ({"spark.executor.instances": "4"}, "4", "2"),
        ({"spark.executor.instances": "1", "spark.executor.cores": "1"}, "1", "1"),
        ({"spark.task.cpus": "2"}, "2", "8"),
        ({"spark.task.cpus": "2", "spark.executor.cores": "4"}, "4", "4"),
    ],
)
def test_the_rest_follows_what_is_given(given: dict[str, str], executors: str, cores: str) -> None:
    assert sizes(K8S, 8, given) == (executors, cores, None)


@pytest.mark.parametrize(
    ("given", "cores_max"),
    [
        ({}, "7"),
        ({"spark.cores.max": "3"}, "3"),
        # An executor begins only where all of its cores are to be had.
        ({"spark.executor.cores": "2"}, "8"),
        ({"spark.task.cpus": "2"}, "14"),
    ],
)
def test_a_standalone_cluster_is_asked_for_cores(given: dict[str, str], cores_max: str) -> None:
    assert sizes(STANDALONE, 7, given)[2] == cores_max
    assert "spark.executor.instances" not in derived(STANDALONE, TaskResources(7), given)


def test_a_local_master_is_asked_for_nothing() -> None:
    assert derived("local[4]", TaskResources(9), DYNAMIC) == {}
    assert contradictions("local[4]", TaskResources(9), {**DYNAMIC, "spark.speculation": "true"}) == []


def test_copiers_have_their_budget_beside_the_heap() -> None:
    one = megabytes(derived(K8S, TaskResources(1), {})["spark.executor.memoryOverhead"])
    # A quarter of the budget may be on its way besides, and a Python takes 100 MB itself.
    assert one is not None
    assert one >= 128 * 1.25 + 100 + 384
    assert megabytes(derived(K8S, TaskResources(1, sql=True), {})["spark.executor.memoryOverhead"]) == (one or 0) + 768
    four = TaskResources(4, 512 << 20)
    given = {"spark.executor.instances": "1"}
    overhead = megabytes(derived(YARN, four, given)["spark.executor.memoryOverhead"])
    assert overhead is not None
    assert overhead >= 4 * (512 * 1.25 + 100) + 384
    assert "spark.executor.memoryOverhead" not in derived(K8S, four, {"spark.kubernetes.memoryOverheadFactor": "3"})
    assert "spark.executor.memoryOverhead" not in derived(STANDALONE, four, {})


@pytest.mark.parametrize("master", [K8S, YARN, STANDALONE])
def test_executors_do_not_come_and_go_unless_that_is_asked_for(master: str) -> None:
    assert derived(master, TaskResources(4), {})["spark.dynamicAllocation.enabled"] == "false"
    found = derived(master, TaskResources(8), {**DYNAMIC, "spark.executor.cores": "4"})
    # Twinlog asks for no more tasks than there are slots: without a least number Spark would see no need.
    assert found["spark.dynamicAllocation.minExecutors"] == found["spark.dynamicAllocation.maxExecutors"] == "2"
    bounded = {**DYNAMIC, "spark.executor.cores": "1", "spark.dynamicAllocation.maxExecutors": "5"}
    assert derived(master, TaskResources(8), bounded)["spark.dynamicAllocation.minExecutors"] == "5"


@pytest.mark.parametrize("master", [K8S, YARN, STANDALONE])
@pytest.mark.parametrize("tasks", [1, 2, 5, 40])
@pytest.mark.parametrize("budget", [16_000_000, SMALL, 1 << 30])
@pytest.mark.parametrize(
    "given",
    [{}, DYNAMIC, {"spark.executor.cores": "3"}, {"spark.executor.instances": "3"}, {"spark.task.cpus": "2"}],
)
def test_what_is_derived_contradicts_nothing(master: str, tasks: int, budget: int, given: dict[str, str]) -> None:
    need = TaskResources(tasks, budget)
    settings = {**CLUSTER_SETTINGS, **derived(master, need, given), **given}
    assert contradictions(master, need, settings) == []


@pytest.mark.parametrize(
    ("master", "given", "words"),
    [
        (
            K8S,
            {"spark.executor.instances": "2", "spark.executor.cores": "3"},
            ["spark.executor.instances = 2", "6 slots for 8 tasks", "set spark.executor.instances = 3"],
        ),
        (YARN, {"spark.executor.instances": "1", "spark.executor.cores": "1"}, ["leave 1 slot for 8 tasks"]),
        (
            STANDALONE,
            {"spark.cores.max": "5", "spark.executor.cores": "2"},
            ["spark.cores.max = 5 in executors of spark.executor.cores = 2", "4 slots", "set spark.cores.max = 8"],
        ),
        (K8S, {"spark.executor.memoryOverhead": "1g"}, ["is 1024 MB", "4 copiers of 128 MB", "memoryOverhead = 1600m"]),
        (K8S, {"spark.kubernetes.memoryOverheadFactor": "0.4"}, ["is 384 MB"]),
        (YARN, {"spark.executor.pyspark.memory": "1g"}, ["spark.executor.pyspark.memory = 1024 MB", "leave it out"]),
        (STANDALONE, {"spark.speculation": "true"}, ["set spark.speculation = false"]),
        (
            K8S,
            {**DYNAMIC, "spark.executor.cores": "4", "spark.executor.instances": "1", **LEAST_ONE},
            ["spark.dynamicAllocation.minExecutors = 1", "4 slots for 8 tasks"],
        ),
    ],
)
def test_what_the_user_has_against_it_is_named(master: str, given: dict[str, str], words: list[str]) -> None:
    need = TaskResources(8)
    (sentence,) = contradictions(master, need, {**CLUSTER_SETTINGS, **derived(master, need, given), **given})
    for word in words:
        assert word in sentence


def test_allocation_without_a_bound_is_named_in_a_session_of_others() -> None:
    own = {**DYNAMIC, "spark.executor.cores": "4", "spark.executor.instances": "2"}
    own |= {"spark.executor.memory": "4g", "spark.executor.memoryOverhead": "2g"}
    (sentence,) = contradictions(YARN, TaskResources(8), own)
    assert "and spark.dynamicAllocation.maxExecutors is missing" in sentence


@pytest.mark.parametrize(
    ("text", "found"), [("512", 512), ("1g", 1024), ("2048k", 2), ("1GB", 1024), ("a lot", None), ("1.5g", None)]
)
def test_memory_is_read_as_spark_writes_it(text: str, found: int | None) -> None:
    assert megabytes(text) == found


def test_what_is_no_number_is_left_to_spark() -> None:
    settings = {"spark.executor.cores": "many", "spark.executor.instances": "", "spark.cores.max": "all"}
    assert contradictions(STANDALONE, TaskResources(8), settings) == []
