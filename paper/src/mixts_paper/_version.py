"""The version of mixts-paper, which is that of mixts."""

__version__ = "0.1.0"
