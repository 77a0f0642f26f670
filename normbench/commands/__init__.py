"""What the commands do: one file each, called by `cli` with parsed arguments; each returns its exit code."""
