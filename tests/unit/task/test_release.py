"""What a copier lets go, and whether something of it may still arrive: neither of its clusters answers here."""

from __future__ import annotations

import pytest

from twinlog.kafka.loop import Loop
from twinlog.offsets.positions import Position, Writer
from twinlog.settings import AdminSettings, ClientSettings, ConsumerSettings, FlowSettings, ProducerSettings
from twinlog.task.copier import Copier, Listener
from twinlog.task.grant import Grant
from twinlog.types import Alias, TopicName, TopicPartition

SOURCE, REMOTE = TopicPartition(TopicName("shop"), 0), TopicPartition(TopicName("north.shop"), 0)
POSITION = Position(5, 5, writer=Writer(1, 0, 5))


def copier(loop: Loop) -> Copier:
    client = ClientSettings(("127.0.0.1:1",))
    settings = FlowSettings(
        source=Alias("north"),
        target=Alias("south"),
        consumer=ConsumerSettings(client),
        producer=ProducerSettings(client),
        source_admin=AdminSettings(client),
        target_admin=AdminSettings(client),
    )
    return Copier(loop, settings, Listener(lambda *_: None, lambda *_: None))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("settled", [True, False])
def test_what_never_began_is_as_unsettled_as_it_came(settled: bool) -> None:
    """The copier before it was lost, and this one has not looked at the log yet."""
    loop = Loop()
    one = copier(loop)
    one.accept([Grant(SOURCE, REMOTE, None, 1 << 20, POSITION, settled=settled)])
    assert loop.run(one.release, [SOURCE]) == {}
    assert (one.unsettled, one.granted) == (set() if settled else {SOURCE}, [])
    one.stop()
    loop.close()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("settled", [True, False])
def test_what_is_still_in_doubt_is_not_settled(settled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()
    one = copier(loop)

    async def close(_leaving: object) -> None:
        """Nothing can be stored."""

    monkeypatch.setattr(one._storing, "close", close)
    one._begin(Grant(SOURCE, REMOTE, None, 1 << 20, POSITION, settled=settled), POSITION)
    assert loop.run(one.release, [SOURCE]) == {SOURCE: POSITION}
    assert one.unsettled == (set() if settled else {SOURCE})
    one.stop()
    loop.close()
