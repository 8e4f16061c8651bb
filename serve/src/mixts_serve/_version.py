"""The version of mixts-serve, which is that of mixts."""

__version__ = "0.1.0"
