"""Keys of the offset topic, byte for byte as Kafka's worker writes them: one that differs would be another position."""

from __future__ import annotations

import pytest

from twinlog.connect.storage.offset_records import OffsetRecord, decode, encode
from twinlog.worker.connectors.model import ConnectorName, OffsetPart, StoredOffset

C = ConnectorName("c")


@pytest.mark.parametrize(
    ("partition", "written"),
    [
        ({"topic": "t", "partition": 0, "cluster": "a"}, b'["c",{"cluster":"a","partition":0,"topic":"t"}]'),
        ({"group": "g", "topic": "t", "partition": 0}, b'["c",{"partition":0,"topic":"t","group":"g"}]'),
        (
            {"targetClusterAlias": "b", "sourceClusterAlias": "a"},
            b'["c",{"sourceClusterAlias":"a","targetClusterAlias":"b"}]',
        ),
    ],
    ids=["source", "checkpoint", "heartbeat"],
)
def test_fields_are_in_the_order_of_javas_hash_map(partition: OffsetPart, written: bytes) -> None:
    key, value = encode(C, StoredOffset(partition, {"offset": 0}))
    assert (key, value) == (written, b'{"offset":0}')
    assert decode(key, value) == OffsetRecord(C, partition, {"offset": 0})
