"""The steps of a switchover, in their order."""
