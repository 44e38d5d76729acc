"""Makes the batches that a remote topic takes out of fetched source batches: whole, merged, or split."""
