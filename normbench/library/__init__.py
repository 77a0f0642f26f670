"""The functions of `from normbench import ...`: normalizers and recurrent layers as modules, runs as data frames."""
