"""The configuration of the user: text of a MirrorMaker 2 properties file in, checked settings out.

Runs on the driver and in command lines only; tasks get the plain values of `twinlog.settings.flow`.
"""

from twinlog.config.load import load
from twinlog.config.model import MirrorConfig

__all__ = ["MirrorConfig", "load"]
