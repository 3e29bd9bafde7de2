#!/usr/bin/env python3
"""Writes tests/golden/stats_scipy.jsonl: values of distributions, intervals and tests as scipy has
them, one row each: {"f": function, "x": arguments, "y": value or values}.

    python3 -m venv V && V/bin/pip install scipy && V/bin/python tests/golden/make_stats.py OUT

scoring/stats.h says what each function is; tests/unit/test_dist.c reads the rows.
"""
import json
import math
import sys

import numpy as np
from scipy import optimize, stats

rows = []


def row(f, x, y):
    y = [float(v) for v in y] if isinstance(y, (list, tuple, np.ndarray)) else float(y)
    if np.all(np.isfinite(y)):
        rows.append({"f": f, "x": x, "y": y})


for x in [-37, -20, -8, -3, -1.96, -1, -0.3, 0, 1e-8, 0.5, 1, 2.5, 5, 8]:
    row("norm_cdf", [x], stats.norm.cdf(x))
for p in [1e-300, 1e-100, 1e-20, 1e-8, 1e-3, 0.025, 0.2, 0.4999, 0.5, 0.51, 0.8, 0.975, 0.9999, 1 - 1e-12]:
    row("norm_quantile", [p], stats.norm.ppf(p))
for df in [1, 2, 3.5, 5, 19, 100, 3000, 1e6]:
    for x in [-50, -4, -1.1, -1e-3, 0, 0.7, 2.1, 12.7]:
        row("t_cdf", [x, df], stats.t.cdf(x, df))
for df in [1, 2, 3, 6.5, 19, 100, 3000, 1e6]:
    for p in [1e-6, 0.005, 0.025, 0.3, 0.5, 0.6, 0.975, 0.9995]:
        row("t_quantile", [p, df], stats.t.ppf(p, df))
for df in [1, 2, 5.5, 19, 100, 2000]:
    for p in [1e-6, 0.025, 0.3, 0.5, 0.9, 0.975, 0.999999]:
        row("chi2_quantile", [p, df], stats.chi2.ppf(p, df))
for df in [1, 2, 4, 8, 18, 58, 1000]:
    for delta in [-1.5, 0, 0.3, 2.8, 6]:
        for x in [-1, 0, 2.1, 4.3, 12.7]:
            y = stats.nct.cdf(x, df, delta)
            if delta == 0:
                y = stats.t.cdf(x, df)
            row("nct_cdf", [x, df, delta], y)
for n, p in [(1, 0.5), (10, 0.5), (24, 0.6), (110, 0.03), (1000, 0.5), (10042, 0.3)]:
    for q in [0.001, 0.2, 0.5, 0.9]:
        k = int(stats.binom.ppf(q, n, p))
        row("binom_cdf", [k, n, p], stats.binom.cdf(k, n, p))
for b, c in [(0, 1), (1, 0), (3, 3), (0, 6), (1, 9), (12, 5), (40, 22), (300, 251), (1000, 1)]:
    row("mcnemar", [b, c], stats.binomtest(min(b, c), b + c, 0.5).pvalue)
for k, n in [(0, 1), (1, 1), (0, 24), (24, 24), (15, 24), (1, 110), (60, 110), (300, 1000), (2955, 10042)]:
    for level in [0.9, 0.95, 0.99]:
        ci = stats.binomtest(k, n).proportion_ci(level, method="wilson")
        row("wilson", [k, n, level], [ci.low, ci.high])


def mde(k):
    """Effect in units of the sd that k runs an arm detect with power 0.8 at 5%, two-sided."""
    df = 2 * (k - 1)
    t = stats.t.ppf(0.975, df)
    power = lambda d: stats.nct.sf(t, df, d) + np.nan_to_num(stats.nct.cdf(-t, df, d))
    return optimize.brentq(lambda d: power(d) - 0.8, 1, 9, xtol=1e-13) * math.sqrt(2 / k)


for k in [2, 3, 4, 5, 7, 10, 20, 50, 200]:
    row("mde", [k], mde(k))

rng = np.random.default_rng(20)
for n in [3, 7, 20, 60]:
    a = np.round(rng.normal(size=n), 3)
    b = np.round(0.5 * a + rng.normal(size=n), 1)  # rounded: ties
    row("pearson", [*a, *b], stats.pearsonr(a, b)[0])
    row("spearman", [*a, *b], stats.spearmanr(a, b)[0])
for na, nb in [(2, 2), (3, 5), (7, 7), (1, 6)]:
    a = np.round(rng.normal(3.69, 0.02, size=na), 4)
    b = np.round(rng.normal(3.67, 0.02, size=nb), 4)
    if na == 1:  # pooled by hand: scipy has no t test of one value
        sd, df = b.std(ddof=1), nb - 1
        se = sd * math.sqrt(1 / na + 1 / nb)
        d, t = a[0] - b.mean(), stats.t.ppf(0.975, df)
        row("seeds", [na, *a, *b], [d - t * se, d + t * se, 2 * stats.t.sf(abs(d / se), df)])
    else:
        test = stats.ttest_ind(a, b)
        ci = test.confidence_interval(0.95)
        row("seeds", [na, *a, *b], [ci.low, ci.high, test.pvalue])
for n in [6, 11, 40]:  # a mean with a cluster for each value is the one-sample t interval
    a = np.round(rng.normal(0.3, 1, size=n), 4)
    test = stats.ttest_1samp(a, 0)
    ci = test.confidence_interval(0.95)
    row("mean", [*a], [a.mean(), ci.low, ci.high, test.pvalue])

with open(sys.argv[1], "w") as f:
    for r in rows:
        f.write(json.dumps(r, default=float) + "\n")
print(len(rows), "rows")
