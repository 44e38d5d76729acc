"""What operators ask of single topics of a running flow: paused, copied again, passed over, tried again."""
