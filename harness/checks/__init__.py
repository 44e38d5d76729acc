"""Checks of a mirror: whole copies, differences of two mirrors, remains on a cluster, requests without pause."""
