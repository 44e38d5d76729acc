"""Reloads the file of a running process, on SIGHUP or on a request of `twinlog reload`."""
