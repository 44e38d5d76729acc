"""The disk that fillers take until a broker deletes their segments."""

from __future__ import annotations

from twinlog.model.topics import ConfigEntry, ConfigSource
from twinlog.model.types import TopicName
from twinlog.ops.plan.filled_heads import CHECK_MS, FilledHead, filled_head, most_disk


def head(*fills: int, check_ms: int = CHECK_MS, **settings: int) -> FilledHead:
    entries = [
        ConfigEntry(name.replace("_", "."), str(value), ConfigSource.DEFAULT) for name, value in settings.items()
    ]
    return filled_head(TopicName("t"), TopicName("a.t"), fills, entries, check_ms)


def test_a_short_head_takes_all_its_bytes() -> None:
    one = head(10**9)
    assert (one.seconds, one.bytes, one.disk_bytes) == (40, 440_000_000, 440_000_000)


def test_of_a_long_head_the_segments_of_the_last_minutes_are_there() -> None:
    one = head(10**12)
    # 11 MB a second for six minutes, a segment of 2^31 offsets, and a step of 2^27.
    assert one.disk_bytes == 360 * 11_000_000 + 944_892_805 + 59_055_800
    assert one.words() == (
        "1,000,000,000,000 offsets before its first records: filled, and deleted again (about 11 h 6 min, and 440.0 GB "
        "on each replica, at most 5.0 GB of its disk at a time: a broker frees whole segments, up to 6 min after each "
        "step of 59.1 MB)"
    )


def test_the_settings_of_the_topic_and_of_the_broker_count() -> None:
    small = head(10**12, check_ms=1_000, segment_bytes=1_000_000, file_delete_delay_ms=9_000)
    assert small.freed_s == 10
    assert small.disk_bytes == 10 * 11_000_000 + 1_000_000 + 59_055_800


def test_each_partition_keeps_a_segment_and_all_share_the_speed_of_a_copier() -> None:
    two = head(10**12, 10**12)
    assert two.disk_bytes == 360 * 11_000_000 + 2 * (944_892_805 + 59_055_800)
    assert most_disk([head(10**12), head(10**12)]) == two.disk_bytes
    assert most_disk([head(10**12), head(100)]) == head(10**12).disk_bytes + 44
    assert most_disk([]) == 0


def test_the_json_has_all_figures() -> None:
    assert head(10**9).as_json() == {
        "topic": "t",
        "remote": "a.t",
        "offsets": 10**9,
        "seconds": 40,
        "bytes_per_replica": 440_000_000,
        "disk_bytes_per_replica": 440_000_000,
        "freed_after_seconds": 360,
    }
