"""What of a resource becomes a setting of Spark's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.cli.run_resource import driver_memory, memory_doubt


@pytest.mark.parametrize(
    ("given", "taken"),
    [(None, None), ("512m", "512m"), ("1g", "1024m"), ("2G", "2048m"), ("700M", "700m"), ("1073741824", "1024m")],
)
def test_the_memory_of_a_resource_is_that_of_sparks_jvm(given: str | None, taken: str | None) -> None:
    config: Any = SimpleNamespace(resource=SimpleNamespace(driver_memory=None if given is None else given.lower()))
    assert driver_memory(config).get("spark.driver.memory") == taken
    assert memory_doubt(config) is None


def test_what_is_too_little_for_spark_is_left_out_and_named() -> None:
    config: Any = SimpleNamespace(resource=SimpleNamespace(driver_memory="256m"))
    assert driver_memory(config) == {}
    assert memory_doubt(config) == (
        "spec.jvmOptions.-Xmx: 256m is too little for Spark, which gets 512m instead: write that, or nothing"
    )
