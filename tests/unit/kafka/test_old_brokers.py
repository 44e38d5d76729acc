"""Brokers that are too old are distinguished from those that will do, by the versions that they report."""

from __future__ import annotations

import pytest
from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from twinlog.kafka.protocol.produce_request import RawProduce
from twinlog.kafka.protocol.versions import incompatible


@pytest.mark.parametrize("version", sorted(version for version in BROKER_API_VERSIONS if version < (2, 1)))
def test_too_old(version: tuple[int, ...]) -> None:
    why = incompatible(BROKER_API_VERSIONS[version])
    assert why is not None
    assert "too old" in why
    assert "Kafka has since 2.1" in why


@pytest.mark.parametrize("version", sorted(version for version in BROKER_API_VERSIONS if version >= (2, 1)))
def test_new_enough(version: tuple[int, ...]) -> None:
    assert incompatible(BROKER_API_VERSIONS[version]) is None


def test_brokers_of_another_product_with_the_lower_versions() -> None:
    assert incompatible({0: (0, 7), 1: (4, 11)}) is None


def test_what_a_later_kafka_may_drop() -> None:
    versions = {0: (10, 20), 1: (4, 18)}
    assert incompatible(versions) == ("the brokers are too new: they know Produce from version 10 on, twinlog sends 9")


def test_what_is_not_there_at_all() -> None:
    assert "Fetch up to version -1" in (incompatible({0: (0, 9)}) or "")


@pytest.mark.parametrize(("highest", "sent"), [(7, 7), (8, 8), (9, 9), (13, 9)])
def test_the_newest_version_that_both_have_is_sent(highest: int, sent: int) -> None:
    request = RawProduce({"t": [(0, b"batch")]})
    request.negotiate_version({0: (0, highest)})
    version = request.API_VERSION
    assert version == sent


@pytest.mark.parametrize("versions", [{}, {0: (0, 6)}, {0: (10, 13)}])
def test_a_request_without_a_common_version_is_not_sent(versions: dict[int, tuple[int, int]]) -> None:
    with pytest.raises(IncompatibleBrokerVersion, match="twinlog sends versions 7 to 9 of 'Produce'"):
        RawProduce({"t": [(0, b"batch")]}).negotiate_version(versions)
