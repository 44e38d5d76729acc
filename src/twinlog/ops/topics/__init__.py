"""`twinlog topics`: single topics of a running flow are listed, paused, copied again, passed over."""
