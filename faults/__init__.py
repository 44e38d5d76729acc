"""Kills, stops and moves whatever takes part in mirroring, at random times, and judges every record afterwards."""
