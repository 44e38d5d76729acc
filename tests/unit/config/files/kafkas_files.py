"""What stands in the worker files of Kafka's `config` folder that is no comment, in 3.9.1 as in 4.3.0."""

from __future__ import annotations

_BOTH = """\
bootstrap.servers=localhost:9092
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=true
value.converter.schemas.enable=true
offset.flush.interval.ms=10000
"""

DISTRIBUTED = f"""\
{_BOTH}group.id=connect-cluster
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
config.storage.topic=connect-configs
config.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
"""

STANDALONE = f"""\
{_BOTH}offset.storage.file.filename=/tmp/connect.offsets
"""
