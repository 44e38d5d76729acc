"""Brokers that are too old are distinguished from those that will do, by the versions that they report."""

from __future__ import annotations

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from twinlog.kafka.protocol.versions import incompatible


@pytest.mark.parametrize("version", sorted(version for version in BROKER_API_VERSIONS if version < (2, 8)))
def test_too_old(version: tuple[int, ...]) -> None:
    why = incompatible(BROKER_API_VERSIONS[version])
    assert why is not None
    assert "too old" in why
    assert "Kafka has since 2.8" in why


@pytest.mark.parametrize("version", sorted(version for version in BROKER_API_VERSIONS if version >= (2, 8)))
def test_new_enough(version: tuple[int, ...]) -> None:
    assert incompatible(BROKER_API_VERSIONS[version]) is None


def test_what_a_later_kafka_may_drop() -> None:
    versions = {0: (10, 20), 1: (4, 18)}
    assert incompatible(versions) == ("the brokers are too new: they know Produce from version 10 on, twinlog sends 9")


def test_what_is_not_there_at_all() -> None:
    assert "Fetch up to version -1" in (incompatible({0: (0, 9)}) or "")
