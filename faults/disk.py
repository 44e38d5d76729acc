"""A disk of a broker that can be full: a file system in memory whose size is changed while it is in use."""

from __future__ import annotations

import subprocess
from pathlib import Path

MOST = "4g"
"""More than an hour of load; only what is used takes memory."""
SPARE_BYTES = 64 * 1024
"""Left when it is full: the next segment or a few appends do not fit."""


class SmallDisk:
    """Mounted at `place` until `close`; `refused` has the reason, where the system does not allow it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir(parents=True, exist_ok=True)
        self.refused = self._mount(f"size={MOST},mode=755")

    def fill(self) -> str:
        """Leave it no room; returns what the system answers, nothing when it is so."""
        done = subprocess.run(
            ["du", "--summarize", "--block-size=1", str(self.place)], capture_output=True, text=True, check=True
        )
        used = int(done.stdout.split()[0])
        return self._mount(f"remount,size={used + SPARE_BYTES}")

    def grow(self) -> None:
        """Give it its whole size back."""
        self._mount(f"remount,size={MOST}")

    def close(self) -> None:
        """Unmount it; what was on it is gone."""
        if not self.refused:
            subprocess.run(["umount", "--lazy", str(self.place)], capture_output=True, check=False)

    def _mount(self, options: str) -> str:
        try:
            done = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.place)],
                capture_output=True,
                text=True,
                check=False,
            )
        except FileNotFoundError:
            return "there is no mount"
        return done.stderr.strip()
