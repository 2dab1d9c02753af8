# SPDX-License-Identifier: Apache-2.0
"""The statistics behind the figures of `make bench`: medians, paired bootstrap intervals, percentiles.

Runs are taken in rounds: within a round every variant runs once, so that what disturbs
the machine for seconds disturbs them alike. A bootstrap therefore draws whole rounds.
"""
import math
import random
import statistics

RESAMPLES = 2000


def percentile(values, share):
    """The value below which `share` (0..1) of the values lie, linear between neighbours."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("percentile of no values")
    at = share * (len(ordered) - 1)
    low, high = math.floor(at), math.ceil(at)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def bootstrap(rounds, figure, seed=1, resamples=None):
    """95 % interval [low, high] of figure(rounds) by drawing rounds with replacement.

    figure takes a list of rounds and may return None (undefined for that draw, for
    example a ratio to nothing); None is returned when more than 1 % of the draws are.
    """
    rng, resamples = random.Random(seed), resamples or RESAMPLES
    drawn = [figure([rng.choice(rounds) for _ in rounds]) for _ in range(resamples)] if rounds else []
    known = [v for v in drawn if v is not None]
    if len(known) < 0.99 * resamples:
        return None
    return [percentile(known, 0.025), percentile(known, 0.975)]


def summary(rounds, figure):
    """(value, interval) of a figure of all rounds."""
    return figure(rounds), bootstrap(rounds, figure)


def same_mode(calibrations, tolerance=0.45):
    """Indexes of the runs whose calibration lies within `tolerance` of the largest group's middle.

    The host places the two processors now on one core, now on two, and the cost of passing a
    cache line between them differs threefold (two modes). Values that differ by less than the
    tolerance are one mode; of several modes the most frequent one wins, the faster one in a tie.
    """
    best = []
    for middle in sorted(calibrations, reverse=True):
        group = [i for i, v in enumerate(calibrations) if abs(v - middle) <= tolerance * middle]
        if len(group) > len(best):
            best = group
    return best
