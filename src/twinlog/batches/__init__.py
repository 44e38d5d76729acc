"""Makes the batches that a remote topic takes out of the batches that a source returned: whole, merged, or split."""
