"""Requests on their way to a broker: delayed by a relay, noted by time, and counted by the broker."""
