"""Runs beside each other: what differs between them, which may be compared, and what the comparison says."""
