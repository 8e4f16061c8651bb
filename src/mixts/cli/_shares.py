"""Shares as options: 5% or 0.05, the same in all commands."""

from __future__ import annotations

import argparse


def share(text: str) -> float:
    """Return a share that is written as a percentage or as a number.

    Parameters
    ----------
    text
        Text of an option, such as "5%" or "0.05".

    Returns
    -------
    float
        The share. The caller checks that it is between 0 and 1.
    """
    digits = text.removesuffix("%")
    try:
        return float(digits) / (1 if digits == text else 100)
    except ValueError:
        expected = "expected a share such as 5% or 0.05"
        raise argparse.ArgumentTypeError(f"{expected}, got {text!r}") from None
