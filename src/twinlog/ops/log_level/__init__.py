"""`twinlog log-level`: more lines, or fewer, of a flow's log for a time."""
