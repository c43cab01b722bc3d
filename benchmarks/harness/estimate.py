"""Medians and how far to trust them. The same rule as measure.h."""

import math
import statistics


def order_statistic(n):
    """How many of n sorted values to leave out at each end: the largest k with P(Binomial(n, 1/2) < k) <= 2.5 %."""
    below, k = 0.0, 0
    while below + math.comb(n, k) * 0.5**n <= 0.025:
        below += math.comb(n, k) * 0.5**n
        k += 1
    return max(k - 1, 0)


def estimate(values):
    """Median and 95 % interval of the median; of fewer than six values the interval is the smallest and the largest."""
    values = sorted(values)
    skip = order_statistic(len(values))
    return {"median": statistics.median(values), "low": values[skip], "high": values[-1 - skip],
            "min": values[0], "max": values[-1], "count": len(values)}
