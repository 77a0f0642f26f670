"""One worker process that trains the runs one after the other: a pool of one."""

from normbench.launch.pool import launcher

__all__ = ["launcher"]
