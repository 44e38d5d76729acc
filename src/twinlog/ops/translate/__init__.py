"""`twinlog translate`: offsets of a flow's cluster on its other cluster."""
