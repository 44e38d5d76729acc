"""Remote and internal topics of a flow: their creation, partitions, settings and ACLs."""
