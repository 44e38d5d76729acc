"""The offset file of a standalone worker: Java's own bytes, replaced as a whole, and held by one worker."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.connect.storage import offset_file as module
from twinlog.connect.storage.offset_file import LastWriter, OffsetFile, read_java_map, write_java_map
from twinlog.errors import ConfigError

# What Java 17 writes for a HashMap with k2 = null, k1 = v1, k0 = v0.
JAVAS = bytes.fromhex(
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f724900097468726573"
    "686f6c6478703f4000000000000c77080000001000000003757200025b42acf317f8060854e00200007870000000026b32707571007e000200"
    "0000026b317571007e00020000000276317571007e0002000000026b307571007e000200000002763078"
)
CONTENT: dict[bytes, bytes | None] = {b"k2": None, b"k1": b"v1", b"k0": b"v0"}
ARRAYS = st.binary(max_size=200)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "connect.offsets"


def problem(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        OffsetFile(path)
    return str(caught.value)


def test_javas_bytes_are_read_and_written() -> None:
    assert read_java_map(JAVAS) == CONTENT
    assert write_java_map(CONTENT) == JAVAS


@given(st.dictionaries(ARRAYS, st.none() | ARRAYS))
def test_what_was_written_is_read(content: dict[bytes, bytes | None]) -> None:
    assert read_java_map(write_java_map(content)) == content


def test_a_value_that_java_wrote_once_and_refers_to() -> None:
    # k1's value is handle 0x7e0005: the map's class and the map, the arrays' class, k2, k1.
    assert read_java_map(JAVAS.replace(b"\x75\x71\x00\x7e\x00\x02\x00\x00\x00\x02v0", b"\x71\x00\x7e\x00\x05")) == {
        **CONTENT,
        b"k0": b"v1",
    }


@given(st.data())
def test_whatever_the_bytes_are_nothing_else_is_raised(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(JAVAS) - 1))
    damaged = data.draw(st.sampled_from([JAVAS[:at], JAVAS[:at] + data.draw(ARRAYS), data.draw(ARRAYS)]))
    with suppress(ValueError):
        read_java_map(damaged)


@pytest.mark.parametrize("at", [0, 3, 30, len(JAVAS) - 9, len(JAVAS) - 1])
def test_a_torn_file_is_refused(at: int) -> None:
    with pytest.raises(ValueError, match=r"ends too early|a worker of Kafka Connect writes"):
        read_java_map(JAVAS[:at])


def test_who_wrote_it_last_is_known(path: Path) -> None:
    file = OffsetFile(path)
    assert (file.content, file.written) == ({}, LastWriter.UNKNOWN)
    file.write_content(CONTENT)
    file.close()
    assert path.read_bytes() == JAVAS
    again = OffsetFile(path)
    assert (again.content, again.written) == (CONTENT, LastWriter.HERE)
    again.close()
    before = path.read_bytes()
    again = OffsetFile(path)
    again.write_content({b"k": b"v"})
    again.close()
    # Also what was there before us.
    for theirs in (write_java_map({b"k": b"w"}), before):
        path.write_bytes(theirs)
        other = OffsetFile(path)
        assert (other.content, other.written) == (read_java_map(theirs), LastWriter.ELSEWHERE)
        other.close()
    path.with_name("connect.offsets.twinlog").unlink()
    unknown = OffsetFile(path)
    assert unknown.written is LastWriter.UNKNOWN
    unknown.close()


def test_a_crash_leaves_one_content_or_the_other(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OffsetFile(path)
    file.write_content(CONTENT)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    for owner, step, left in (
        (Path, "replace", CONTENT),
        (Path, "open", CONTENT),
        (module, "_sync_folder", {b"k": b"w"}),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(owner, step, crash)
            with pytest.raises(KeyboardInterrupt):
                file.write_content({b"k": b"w"})
        file.close()
        file = OffsetFile(path)
        assert (file.content, file.written) == (left, LastWriter.HERE)
    file.close()


def test_its_rights_stay_and_links_are_not_followed(path: Path, tmp_path: Path) -> None:
    path.write_bytes(JAVAS)
    path.chmod(0o600)
    (tmp_path / "victim").write_text("mine")
    path.with_name("connect.offsets.new").symlink_to(tmp_path / "victim")
    file = OffsetFile(path)
    file.write_content({b"k": b"w"})
    file.close()
    assert (path.stat().st_mode & 0o777, (tmp_path / "victim").read_text()) == (0o600, "mine")
    note = path.with_name("connect.offsets.twinlog")
    note.unlink()
    note.symlink_to(tmp_path / "victim")
    assert "cannot be written" in problem(path)
    assert (tmp_path / "victim").read_text() == "mine"


def test_what_cannot_be_used(path: Path, tmp_path: Path) -> None:
    file = OffsetFile(path)
    assert "another worker has this file; write a file of its own for each worker" in problem(path)
    file.close()
    path.write_bytes(b"no Java")
    assert "write the offset file of a standalone worker; restore it, or move it away" in problem(path)
    assert path.read_bytes() == b"no Java"
    assert "No such file or directory" in problem(tmp_path / "missing" / "offsets")
    path.unlink()
    path.mkdir()
    assert "it cannot be read: Is a directory" in problem(path)
