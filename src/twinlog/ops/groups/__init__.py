"""`twinlog groups`: the offsets of consumer groups on both clusters of a flow."""
