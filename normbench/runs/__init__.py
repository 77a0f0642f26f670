"""Run directories and packs: locks, logs, status. Nothing here imports torch."""
