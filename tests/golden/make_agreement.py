#!/usr/bin/env python3
"""Golden values for tests/unit/test_agreement.c, made by scipy and scikit-learn.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install scipy scikit-learn
    /tmp/v/bin/python tests/golden/make_agreement.py > tests/golden/agreement_sklearn.jsonl
"""
import json, random
from scipy import stats
from sklearn.metrics import cohen_kappa_score

rng = random.Random(5)
for n, lo, hi, noise in [(5, 1, 5, 1), (12, 1, 5, 1), (40, 1, 5, 2), (100, 1, 5, 1), (100, 0, 100, 10),
                         (250, 0, 100, 40), (30, 0, 2, 1), (7, 0, 100, 0)]:
    a = [rng.randint(lo, hi) for _ in range(n)]
    b = [min(hi, max(lo, x + rng.randint(-noise, noise))) for x in a]
    if hi - lo <= 9:
        ca, cb, classes = [x - lo for x in a], [x - lo for x in b], hi - lo + 1
    else:
        band = lambda x: min(4, int((x - lo) / (hi - lo) * 5))
        ca, cb, classes = [band(x) for x in a], [band(x) for x in b], 5
    labels = list(range(classes))
    print(json.dumps({
        "lo": lo, "hi": hi, "a": a, "b": b, "classes": classes,
        "kendall": stats.kendalltau(a, b).statistic,
        "pearson": stats.pearsonr(a, b).statistic, "spearman": stats.spearmanr(a, b).statistic,
        "kappa": cohen_kappa_score(ca, cb, labels=labels),
        "kappa_linear": cohen_kappa_score(ca, cb, labels=labels, weights="linear"),
        "kappa_quadratic": cohen_kappa_score(ca, cb, labels=labels, weights="quadratic")}))
