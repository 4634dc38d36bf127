"""Dask's own log, in a process whose root logger Prefect has taken over."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

CHATTY = (
    "distributed.batched",
    "distributed.core",
    "distributed.http.proxy",
    "distributed.nanny",
    "distributed.scheduler",
)


@contextmanager
def quiet_dask() -> Generator[None]:
    """Keep Dask's every connection and worker out of the log inside the block; warnings stay.

    Dask silences its own handlers for a local cluster, but not Prefect's, which hangs on the root logger.
    """
    loggers = [logging.getLogger(name) for name in CHATTY]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(max(logger.level, logging.WARNING))
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
