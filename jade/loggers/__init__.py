"""The destinations of metrics and media; each one is a file of this folder."""

from jade.loggers.base import Logger, LoggerGroup, RunInfo

__all__ = ["Logger", "LoggerGroup", "RunInfo"]
