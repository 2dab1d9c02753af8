#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes vectors.json: what SciPy and statsmodels say about seeded series.

Run it when a case is added, not in tests, with the versions that vectors.json names, of which it writes the same
file again (p by Monte Carlo and the random series are those versions' draws):
    python3 -m venv /tmp/vectors
    /tmp/vectors/bin/pip install numpy==2.4.6 scipy==1.17.1 statsmodels==0.15.0
    /tmp/vectors/bin/python operator/internal/lancet/stats/testdata/vectors.py
"""
import json
import pathlib
import warnings

import numpy as np
import scipy
import statsmodels
from scipy import stats
from statsmodels.tsa.stattools import adfuller

warnings.filterwarnings("ignore", category=FutureWarning)  # of what a later adfuller returns

random = np.random.default_rng(20190710)


def anderson(samples, mean):
    """A² against a fully specified exponential, p by SciPy's Monte Carlo."""
    known = {"loc": 0, "scale": mean}
    r = stats.goodness_of_fit(stats.expon, samples, known_params=known, statistic="ad",
                              n_mc_samples=20000, rng=random)
    return {"samples": samples.tolist(), "mean": mean, "a2": float(r.statistic), "p": float(r.pvalue)}


def spearman(series, lag):
    r = stats.spearmanr(series[:-lag], series[lag:])
    return {"series": series.tolist(), "lag": lag, "rho": float(r.statistic), "p": float(r.pvalue)}


def fuller(series):
    statistic, p, lags, n, *_ = adfuller(series, regression="c", autolag="AIC")
    return {"series": series.tolist(), "statistic": float(statistic), "p": float(p), "lags": int(lags),
            "observations": int(n)}


def runs(series, p, lag):
    """Runs of samples above percentile p in the lag series laid end to end: hypergeometric when independent."""
    laid = np.concatenate([series[i::lag] for i in range(lag)])
    slow = laid > np.sort(series)[int(np.ceil(p * len(series))) - 1]
    k, r = int(slow.sum()), int((slow & ~np.concatenate([[False], slow[:-1]])).sum())
    law = stats.hypergeom(len(series), len(series) - k + 1, k)
    return {"series": series.tolist(), "percentile": p, "lag": lag, "slow": k, "runs": r, "mean": float(law.mean()) if k else 0.0,
            "p": float(law.cdf(r)) if k else 1.0}


def autoregressive(n, phi):
    out = np.zeros(n)
    for i in range(1, n):
        out[i] = phi * out[i - 1] + random.exponential()
    return out


def rounded(a):
    return np.round(a, 6)


def uniform(seed):
    """splitmix64's upper 53 bits as a fraction: the test in Go makes the same series bit by bit."""
    mask = (1 << 64) - 1
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield float((z ^ (z >> 31)) >> 11) * 2.0**-53


def long(seed, n, phi, lag):
    """A long AR(1) series by its seed: x = phi * x + uniform, from its mean on; slow samples as they come, ranks at a lag."""
    series, draw = np.full(n, 0.5 / (1 - phi)), uniform(seed)
    for i in range(1, n):
        series[i] = phi * series[i - 1] + next(draw)
    made = {"seed": seed, "n": n, "phi": phi, "last": float(series[-1])}
    for name, of in (("fuller", fuller(series)), ("spearman", spearman(series, lag)), ("runs", runs(series, 0.99, 1))):
        made[name] = {key: value for key, value in of.items() if key != "series"}
    return made


def short(value):
    """Twelve digits of what was computed: the last ones are the processor's."""
    return {key: float(f"{v:.12g}") if isinstance(v, float) and key in ("a2", "rho", "p", "statistic", "mean") else
            short(v) if isinstance(v, dict) else v for key, v in value.items()}


vectors = {
    "versions": {"numpy": np.__version__, "scipy": scipy.__version__, "statsmodels": statsmodels.__version__},
    "anderson": [
        anderson(rounded(random.exponential(10, 20)), 10.0),
        anderson(rounded(random.exponential(10, 200)), 10.0),
        anderson(rounded(random.exponential(11.5, 200)), 10.0),
        anderson(rounded(random.gamma(1.3, 10 / 1.3, 300)), 10.0),
        anderson(rounded(random.exponential(10, 5)), 10.0),
    ],
    "spearman": [
        spearman(rounded(random.exponential(1, 300)), 1),
        spearman(rounded(autoregressive(300, 0.3)), 1),
        spearman(rounded(autoregressive(300, 0.6)), 5),
        spearman(np.floor(random.exponential(3, 200)), 1),
    ],
    "fuller": [
        fuller(rounded(random.exponential(1, 250))),
        fuller(rounded(autoregressive(250, 0.9))),
        fuller(rounded(np.cumsum(random.normal(0, 1, 250)))),
        fuller(rounded(np.linspace(0, 50, 200) + random.exponential(1, 200))),
        fuller(rounded(autoregressive(12, 0.2))),
    ],
    "ranks": [{"n": n, "p": p, "gamma": g,
               "low": int(np.floor(n * p - stats.norm.ppf((1 + g) / 2) * np.sqrt(n * p * (1 - p)))),
               "high": int(np.ceil(n * p + stats.norm.ppf((1 + g) / 2) * np.sqrt(n * p * (1 - p)))) + 1}
              for n, p, g in [(10000, .99, .95), (563, .99, .95), (562, .99, .95), (10000, .999, .95), (1000, .5, .99),
                              (100, .9, .9)]],
    "runs": [
        runs(rounded(random.exponential(1, 400)), 0.9, 1),
        runs(rounded(autoregressive(400, 0.8)), 0.9, 1),
        runs(rounded(autoregressive(400, 0.8)), 0.95, 7),
        runs(np.floor(random.exponential(3, 300)), 0.5, 2),
        runs(np.ones(50), 0.9, 1),
    ],
    "long": [long(1, 3000, 0.9, 20), long(2, 2500, 0.998, 500), long(3, 2000, 0.2, 1)],
}
lists = {name: [short(case) for case in cases] for name, cases in vectors.items() if isinstance(cases, list)}
path = pathlib.Path(__file__).with_name("vectors.json")
path.write_text(json.dumps({"versions": vectors["versions"], **lists}) + "\n")
