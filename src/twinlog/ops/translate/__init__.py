"""`twinlog translate`: offsets of one cluster of a flow on the opposite cluster."""
