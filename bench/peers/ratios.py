"""The arithmetic of the tables."""

import math
from collections.abc import Iterable, Mapping


def ratio(peers_s: Iterable[float], own_s: float) -> float:
    """Time of the fastest peer over our own: above 1, we are ahead.

    >>> ratio([3.0, 2.0], 0.5)
    4.0

    Raises ValueError without a peer, or for a time that is not above zero.
    """
    fastest_s = min(peers_s)
    if not (fastest_s > 0 and own_s > 0):
        raise ValueError(f"times are {fastest_s} and {own_s} s, need to be above zero")
    return fastest_s / own_s


def geometric_mean(ratios: Iterable[float]) -> float:
    """exp of the mean of logarithms: ×2 at one size and ×½ at another cancel.

    >>> geometric_mean([2.0, 0.5, 8.0])
    2.0

    Raises ValueError without a ratio, or for one that is not above zero.
    """
    logarithms = [math.log(value) for value in ratios]
    if not logarithms:
        raise ValueError("no ratios")
    return math.exp(math.fsum(logarithms) / len(logarithms))


def smallest(ratios: Mapping[int, float]) -> tuple[int, float]:
    """The size at which we are least ahead, and the ratio there."""
    size = min(ratios, key=lambda bytes_: ratios[bytes_])
    return size, ratios[size]
