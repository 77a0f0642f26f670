"""One worker process that trains the runs one after another: a pool of size one."""

from normbench.launch.pool import launcher

__all__ = ["launcher"]
