"""What `from normbench import ...` gives: normalizers and recurrent layers as plain modules, runs as data frames."""
