"""Places along a line, moved apart where they would touch."""

from __future__ import annotations

from collections.abc import Sequence


def spread(
    positions: Sequence[float],
    sizes: Sequence[float],
    low: float = -float("inf"),
    high: float = float("inf"),
) -> list[float]:
    """Move labels apart, as little as needed so that none touch.

    Minimises the sum of squared moves, keeping the order of the positions.

    Parameters
    ----------
    positions
        Wanted middles of the labels.
    sizes
        Sizes of the labels.
    low, high
        Bounds of the labels; labels that do not fit between them are centred.

    Returns
    -------
    The middles of the labels.
    """
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    # Minus the sizes of all labels before it, each position must be at least the one before it.
    # This is isotonic regression: pool neighbours that violate the order.
    offsets, offset = [], 0.0
    for i in order:
        offsets.append(offset + sizes[i] / 2)
        offset += sizes[i]
    pools: list[tuple[float, int]] = []
    for i, before in zip(order, offsets, strict=True):
        value, count = positions[i] - before, 1
        while pools and pools[-1][0] > value:
            other, n = pools.pop()
            value, count = (other * n + value * count) / (n + count), n + count
        pools.append((value, count))
    starts = [value for value, count in pools for _ in range(count)]
    highest = high - offset
    if highest < low:
        low = highest = (low + highest) / 2
    moved = list(positions)
    for i, start, before in zip(order, starts, offsets, strict=True):
        moved[i] = min(max(start, low), highest) + before
    return moved
