"""`twinlog status`: the state of flows, read from the topics and groups of their clusters."""
