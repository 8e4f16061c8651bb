"""Places along a line, moved apart where they would touch."""

from __future__ import annotations

from collections.abc import Sequence


def spread(
    positions: Sequence[float],
    sizes: Sequence[float],
    low: float = -float("inf"),
    high: float = float("inf"),
) -> list[float]:
    """Middles of labels moved apart, as little as needed so that none touch, between two bounds.

    The sum of squared moves is least, in the order of the positions. What does not fit between the
    bounds is centred on them.
    """
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    # Less what all those before it take up, each position may not be below the one before it:
    # isotonic regression, by pooling neighbours that violate it.
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
