#!/usr/bin/env bash
# What intervals and tests promise, 10,000 times each at 8, 20 and 100 clusters: A/A 4.4-5.6%, coverage
# 94.4-95.6% (at least 93% with clusters of unequal sizes), discrete tests at most 5.6%.
. tests/cli/tap.sh
SIMULATE=10000 "$BUILD/tests/unit/test_stats" > "${TMPDIR:-/tmp}/assay-stats.$$"
ok "10,000 simulations stay in their bands" test $? = 0
sed -n 's/^/# /p' "${TMPDIR:-/tmp}/assay-stats.$$" | grep -E '%|not ok'
rm -f "${TMPDIR:-/tmp}/assay-stats.$$"
done_testing
