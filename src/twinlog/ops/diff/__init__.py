"""`twinlog diff`: how two clusters differ."""
