"""The topics of a running flow: refreshed, checked for conflicts, and given their first positions."""
