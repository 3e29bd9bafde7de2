#!/usr/bin/env bash
# Choice tasks as part of a run: eval.tasks in the run file, metrics in the result, a comparison.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/files" "$tmp/data"
printf '%s\n' '[data]' 'kind = corpus' 'docs = 200' 'instruct = none' '[vocab]' 'size = 300' '[model]' 'layers = 1' 'heads = 2' \
    'width = 16' 'context = 64' '[train]' 'tokens = 2K' 'batch = 4' '[eval]' 'documents = false' \
    "tasks = copa=$tmp/data/rows.jsonl, $tmp/data/last.ini=$tmp/data/text.jsonl" 'shots = 1' > "$tmp/files/tiny.ini"
printf 'include = tiny.ini\n[data]\nrun = tiny\n[train]\nseed = 2\n' > "$tmp/files/tiny-2.ini"
printf '[task]\ntitle = last\nprompt = {text|but_last_word}\nchoices = {text|last_word}\ngold = 0\nmetric = acc_greedy\n' > "$tmp/data/last.ini"
for i in $(seq 30); do
    echo "{\"query\": \"number $i is\", \"choices\": [\"odd\", \"even\"], \"gold\": $(((i + 1) % 2))}"
done > "$tmp/data/rows.jsonl"
for i in $(seq 12); do echo "{\"text\": \"after $i comes $((i + 1))\"}"; done > "$tmp/data/text.jsonl"
go() { make run DEPS=0 BUILD="$BUILD" RUN_FILES="$tmp/files" RUNS_DIR="$tmp/runs" "$@" > "$tmp/log" 2>&1; }

go RUN=tiny
if ! is $? 0 "make run with tasks"; then
    sed 's/^/# /' "$tmp/log" | tail -20
    done_testing
fi
metrics=$("$ASSAY" cat "$tmp/runs/tiny/result.msgpack" | grep -o '"name":"[a-z_]*","task":"[a-z]*"' | tr '\n' ' ')
for m in '"name":"acc","task":"copa"' '"name":"acc_norm_char","task":"copa"' '"name":"acc_greedy","task":"last"' '"name":"nats_answer","task":"last"'; do
    [[ $metrics == *"$m"* ]]
    result $? "the result has $m"
done
is "$("$ASSAY" cat "$tmp/runs/tiny/result.msgpack" | grep -o '"name":"acc","task":"copa"[^[]*"n":[0-9]*' | grep -o '[0-9]*$')" 30 "over all rows"
touch "$tmp/data/rows.jsonl"
before=$(sha256sum "$tmp/runs/tiny/eval/copa.msgpack.manifest.json")
go RUN=tiny
is "$(sha256sum "$tmp/runs/tiny/eval/copa.msgpack.manifest.json")" "$before" "rows that are only newer: nothing runs"
echo '{"query": "number 31 is", "choices": ["odd", "even"], "gold": 0}' >> "$tmp/data/rows.jsonl"
go RUN=tiny
[ "$(sha256sum "$tmp/runs/tiny/eval/copa.msgpack.manifest.json")" != "$before" ]
result $? "another row: the task runs again"
go RUN=tiny-2
is $? 0 "a second run"
"$ASSAY" compare "$tmp/runs/tiny/result.msgpack" "$tmp/runs/tiny-2/result.msgpack" > "$tmp/out" 2>&1
ok "their accuracies compare" grep -q 'acc' "$tmp/out"
sed -i 's/^tasks = .*/tasks = copa/' "$tmp/files/tiny.ini"
go RUN=tiny
[ $? != 0 ] && grep -q 'wants TASK=ROWS' "$tmp/log"
result $? "a task without rows is refused"
done_testing
