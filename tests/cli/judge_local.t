#!/usr/bin/env bash
# make demo JUDGE=local without running it: what a dry run does, and what is said without PyPI.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
make=(make DEPS=0 BUILD="$BUILD" RUNS_DIR="$tmp/runs" LOCAL_DIR="$tmp/local" LOCAL_PORT=1)

"${make[@]}" -n demo JUDGE=local > "$tmp/out" 2> "$tmp/err" < /dev/null
is $? 0 "make -n demo JUDGE=local"
ok "starts and installs nothing" [ ! -e "$tmp/local" ]
is "$(find "$tmp/runs" -name '*manifest.json' 2> /dev/null | wc -l)" 0 "and makes nothing"
ok "and shows the demo that a judge would stand beside" grep -q 'compare.*demo-base-1' "$tmp/out"
ok "with that judge" grep -q 'smollm2-135m-instruct' "$tmp/out"
PIP_INDEX_URL=http://127.0.0.1:1/simple PIP_CONFIG_FILE=/dev/null PIP_NO_INDEX=1 bash pipelines/local_judge.sh "$tmp/local" 1 touch "$tmp/ran" > "$tmp/out" 2> "$tmp/err" < /dev/null
is $? 77 "without PyPI local_judge.sh ends with 77"
ok "and a sentence" grep -q 'PyPI is out of reach' "$tmp/err"
ok "and runs nothing" [ ! -e "$tmp/ran" ]
done_testing
