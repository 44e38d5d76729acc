"""The configuration of the user: text of a MirrorMaker 2 properties file in, checked settings out.

Runs on the driver and in command lines only; tasks get the plain values of `twinlog.settings`.
"""

from twinlog.config.load import MirrorConfig, load

__all__ = ["MirrorConfig", "load"]
