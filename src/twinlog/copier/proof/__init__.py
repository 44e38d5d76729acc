"""The continuous proof that the remote log has the records that the source returned."""
