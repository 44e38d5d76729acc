"""Exactly once: a copier appends records and positions in transactions (KIP-98, KIP-618)."""
