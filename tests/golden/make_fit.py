#!/usr/bin/env python3
"""Golden values of tests/unit/test_fit.c: numpy's least squares, and the ends of Fieller's interval found as roots of the t
statistic of the slope (scipy's brentq), not from the closed form. Writes fit_numpy.jsonl. Needs numpy and scipy."""
import json, sys
import numpy as np
from scipy import optimize, stats

def case(name, x, y, level):
    x, y = np.array(x, float), np.array(y, float)
    c = np.log(x).mean()
    u = np.log(x) - c
    X = np.vander(u, 3, increasing=True)
    b, *_ = np.linalg.lstsq(X, y, rcond=None)
    df = len(x) - 3
    s2 = ((y - X @ b) ** 2).sum() / df
    cov = s2 * np.linalg.inv(X.T @ X)
    t = stats.t.ppf(0.5 + level / 2, df)
    def stat(v):
        g = np.array([0, 1, 2 * v])
        return (g @ b) / np.sqrt(g @ cov @ g)
    best = -b[1] / (2 * b[2])
    ends = []
    for sign in (-1, 1):
        f, step = (lambda v: abs(stat(v)) - t), 0.01
        v = best
        while abs(v - best) < 60 and f(v) < 0:
            v += sign * step; step *= 1.05
        ends.append(float(np.exp(optimize.brentq(f, best, v, xtol=1e-13) + c)) if f(v) >= 0 else None)
    return dict(name=name, x=list(x), y=list(y), level=level, b=[float(v) for v in b], sd=float(np.sqrt(s2)),
                best=float(np.exp(best + c)), lo=ends[0], hi=ends[1])

rng = np.random.default_rng(7)
xs = [4, 8, 16, 32, 64, 128]
curve = lambda x: 3.5 + 0.03 * (np.log(x) - np.log(24)) ** 2
out = [
    case("the reference series, three digits", [6, 104, 216, 224, 512], [3.944, 3.674, 3.725, 3.730, 3.771], 0.9),
    case("the reference series, six digits", [6, 104, 216, 224, 512], [3.943522, 3.673623, 3.724507, 3.729900, 3.771478], 0.9),
    case("six values, three seeds", xs * 3, [float(curve(x) + 0.01 * rng.standard_normal()) for x in xs * 3], 0.95),
    case("flat", xs * 2, [float(3.5 + 0.01 * rng.standard_normal()) for x in xs * 2], 0.9),
    case("a slope", xs * 2, [float(3.9 - 0.05 * np.log(x) + 0.01 * rng.standard_normal()) for x in xs * 2], 0.9),
]
with open(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/fit_numpy.jsonl", "w") as f:
    for o in out:
        f.write(json.dumps(o) + "\n")
