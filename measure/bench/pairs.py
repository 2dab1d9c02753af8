# SPDX-License-Identifier: Apache-2.0
"""Pairs of runs on a machine that is not ours alone: without a thing and with it, in the same round.

In a round every variant runs once. Others may disturb a run; it is then repeated, and when it stays disturbed it is marked
so. A pair counts when both of its runs were undisturbed, whatever happened to the rest of the round. Whether a run counts is
decided by what others used of the machine and by whether the rate was reached, never by what the run cost, so that leaving
it out favours nobody. A figure is made of one pair (what a thing costs) or of two (what it costs over what another one
does): of the median over the rounds in which that pair counts, each. For its interval whole rounds are drawn
(stats.bootstrap), the disturbed ones too, and both medians taken from each draw: pairs of one round stay together, and that
their numbers might have come out otherwise widens it.
"""
import statistics

import stats


class Repeats:
    """Repeats a run that others disturbed, twice at most and so many times in all; says so."""

    def __init__(self, left, say):
        self.left, self.say = left, say

    def run(self, variant, once, trouble):
        """once() makes a run, trouble(run) says what is wrong with it or None. The last run counts whatever it is."""
        for attempt in range(3):
            run = once()
            why = trouble(run)
            if why is None:
                break
            run["disturbed"] = True
            if attempt == 2 or self.left == 0:
                break
            self.left -= 1
            self.say(f"  {variant}: repeated, {why}")
        return run


def present(rounds, pair):
    """The rounds in which both of a pair ran."""
    return [r for r in rounds if all(v in r for v in pair)]


def undisturbed(rounds, pair):
    """The rounds in which both ran and nobody disturbed either."""
    return [r for r in present(rounds, pair) if not any(r[v].get("disturbed") for v in pair)]


def collect(ctx, wanted, variants, pairs, once, trouble):
    """`wanted` rounds of the variants; then, as many again at most, of the pairs that did not count so often.

    Every other round goes through them in the opposite order. A repeat is cheaper than a round, so there may be two for each.
    """
    rounds, repeats, asked = [], Repeats(2 * wanted, ctx.say), set(variants)
    while asked and len(rounds) < 2 * wanted:
        order = [v for v in (variants if len(rounds) % 2 == 0 else variants[::-1]) if v in asked]
        rounds.append({v: repeats.run(v, lambda v=v: once(v), trouble) for v in order})
        last = rounds[-1]
        ctx.say("  " + "  ".join(f"{v} {last[v]['busy']:.1f} ({last[v]['own']:.1f})" for v in variants if v in last)
                + " us/request, machine (processes)")
        short = {v for pair in pairs if len(undisturbed(rounds, pair)) < wanted for v in pair}
        asked = set(variants) if len(rounds) < wanted else short
    return rounds


def cost(pair, key, kept):
    """Figure of rounds: what the second of a pair costs more than the first; None when no pair is kept."""
    without, with_it = pair

    def figure(rounds):
        each = [r[with_it][key] - r[without][key] for r in kept(rounds, pair)]
        return statistics.median(each) if each else None
    return figure


def share(ours, theirs, key, kept):
    """Figure of rounds: the cost of one pair over that of another; None where theirs is not above nothing."""
    def figure(rounds):
        over, under = cost(ours, key, kept)(rounds), cost(theirs, key, kept)(rounds)
        return over / under if over is not None and under is not None and under > 0 else None
    return figure


def row(rounds, name, pairs, enough, note, unit):
    """A row of the report, or None where a pair never ran. Its cost is the whole machine's, from `enough` undisturbed pairs at
    least, or, where enough is None, that of the processes, from all rounds: of them it is known whatever others did."""
    ran = [len(present(rounds, p)) for p in pairs]
    if 0 in ran:
        return None
    key, kept = ("own", present) if enough is None else ("busy", undisturbed)
    counts = [len(kept(rounds, p)) for p in pairs]
    said = "processes only" if enough is None else " and ".join(f"{n} undisturbed pairs of {m}" for n, m in zip(counts, ran))
    quiet = min(counts) >= max(2, enough or 0)
    if not quiet:
        said += f", {enough or 2} are asked for: the machine was not quiet, no figure"
    value, interval = stats.summary(rounds, (share if len(pairs) == 2 else cost)(*pairs, key, kept)) if quiet else (None, None)
    return {"name": name, "value": value, "interval": interval, "unit": unit, "note": f"{note}; {said}"}
