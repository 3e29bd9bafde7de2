#!/usr/bin/env bash
# make sweep: cells are ordinary runs, resumed, within a budget, and end in a comparison and a curve.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/files" "$tmp/sweeps"
cat > "$tmp/files/base.ini" <<'INI'
[data]
kind = corpus
docs = 400
holdout = 0.1
instruct = none
[vocab]
size = 400
[model]
layers = 1
heads = 2
width = 32
context = 64
[train]
tokens = 4K
batch = 4
[eval]
instruct = false
documents = false
INI
file() { printf '[sweep]\nrun = base\n%s\n' "$2" > "$tmp/sweeps/$1.ini"; }
go() { make sweep DEPS=0 BUILD="$BUILD" RUN_FILES="$tmp/files" SWEEP_FILES="$tmp/sweeps" RUNS_DIR="$tmp/runs" "$@" > "$tmp/log" 2> "$tmp/err"; }
file lr 'grid = train.lr: 5e-4 2e-3 8e-3 3e-2
seeds = 2'
file twice 'grid = train.lr: 2e-3 1e-3 0.001'
sweep() { "$ASSAY" sweep "$tmp/sweeps/$1.ini" --run-files "$tmp/files" --runs "$tmp/runs" > "$tmp/log" 2> "$tmp/err"; }
sweep twice
is "$? $(grep -c 'twice-lr1e-3-s1 and twice-lr0.001-s1 are one run; leave one out' "$tmp/err")" "2 1" "one value written twice is refused" || cat "$tmp/err"
file twice 'list = train.seed=1 | train.seed=2
seeds = 2'
sweep twice
is "$? $(grep -c 'twice-seed2-s2 and twice-seed1-s2 are one run' "$tmp/err")" "2 1" "and one run under two names" || cat "$tmp/err"
file twice 'grid = train.batch: 2 4 2'
sweep twice
is "$? $(grep -c 'cell twice-batch2-s1 is there twice; leave one out' "$tmp/err")" "2 1" "and the same value again" || cat "$tmp/err"
sweep lr
ok "each column has a heading" grep -qE '^run +train.lr +nll_token +hours +money +remark$' "$tmp/log" || head -3 "$tmp/log"
go SWEEP=lr
is $? 0 "a grid of four rates and two seeds" || tail -5 "$tmp/err" | sed 's/^/# /'
is "$(ls -d "$tmp"/runs/lr-* | wc -l)" 8 "is eight runs"
ok "named by their options" test -s "$tmp/runs/lr-lr8e-3-s2/result.msgpack"
is "$(ls -d "$tmp"/runs/*/shards | wc -l)" 1 "with the data of one"
ok "it ends in the comparison" grep -q '8 runs against lr-lr5e-4-s1' "$tmp/log"
ok "in which seeds are one group" grep -qE 'lr-lr2e-3 .*2 (seeds|against)|lr-lr2e-3 ' "$tmp/log"
ok "and in the curve" grep -q '^train.lr against nll_token, a parabola in its logarithm over 8 runs at 4 values' "$tmp/log"
ok "which names an optimum with its interval, or why there is none" grep -qE '^optimum ([0-9.e-]+, 90% interval [0-9.e-]+-[0-9.e+-]+|not identified: )' "$tmp/log"
means=$(grep -cE '^ *(0\.0005|0\.002|0\.008|0\.03) +2 ' "$tmp/log")
is "$means" 4 "mean and spread at each of the four"
sums() { (cd "$tmp/runs" && find . -name '*manifest.json' | sort | xargs sha256sum); }
before=$(sums)
go SWEEP=lr
is "$? $(sums | md5sum)" "0 $(echo "$before" | md5sum)" "again: nothing runs"
rm "$tmp/runs/lr-lr2e-3-s1/result.msgpack.manifest.json" "$tmp/runs/lr-lr2e-3-s1/eval/windows.msgpack.manifest.json"
go SWEEP=lr
is "$? $(diff <(echo "$before") <(sums) | grep -c '^> ')" "0 2" "a cell that was cut is finished, and only that one"

# ---- the budget
file small 'grid = train.batch: 2 4 8
max_hours = 1e-9'
go SWEEP=small
is "$? $(ls -d "$tmp"/runs/small-*/result.msgpack | wc -l)" "2 1" "a budget: the first run tells what one takes, then it ends"
ok "and says so" grep -q 'one more could pass sweep.max_hours' "$tmp/err"
sed -i 's/1e-9/1/' "$tmp/sweeps/small.ini"
go SWEEP=small
is "$? $(ls -d "$tmp"/runs/small-*/result.msgpack | wc -l)" "0 3" "with more of it the sweep goes on"
ok "three runs are too few for a curve" grep -q 'not identified: it takes at least four runs' "$tmp/log"
file money 'grid = train.batch: 2 4
max_money = 1'
go SWEEP=money
ok "a budget of money without a price is refused" grep -q 'sweep.max_money is set, but no price is known: say HARDWARE=name' "$tmp/err"
is "$(ls -d "$tmp"/runs/money-* 2>/dev/null | wc -l)" 0 "before anything is trained"

file precise 'grid = train.precision: fp32 fp16'
go SWEEP=precise SET=train.backend=cpu
is "$? $(grep -c 'cell precise-precisionfp16-s1: train.precision: precision fp16: the cpu backend computes in' "$tmp/err")" "2 1" "a cell that this machine can't train is named" || cat "$tmp/err"
is "$(ls -d "$tmp"/runs/precise-* 2>/dev/null | wc -l)" 0 "before any of them is"

mkdir "$tmp/hardware"
printf '[hardware]\nname = rented\ncount = 1\nprice_hour = 1\nprice_currency = USD\n' > "$tmp/hardware/rented.ini"
go SWEEP=money SET="train.tokens=2K eval.tokens=512" HARDWARE_FILES="$tmp/hardware" HARDWARE=rented
is $? 0 "another length and a price: the cells again, in their place" || tail -5 "$tmp/err" | sed 's/^/# /'
is "$("$ASSAY" cat "$tmp/runs/money-batch4-s1/result.msgpack" | grep -c '"tokens":2048,')" 1 "with that length"

# ---- lists, a cell that fails, options that are wrong
file list 'list = train.lr=1e-3 train.batch=2 | model.heads=3 | train.lr=4e-3'
go SWEEP=list
ok "a cell that can't be is refused before anything runs" grep -q 'model.heads = 3 does not divide' "$tmp/err"
file list 'list = train.lr=1e-3 train.batch=2 | train.lr=1e-3 model.vocab=100'
go SWEEP=list
is "$(ls -d "$tmp"/runs/list-*/result.msgpack | wc -l)" 1 "a cell that fails does not stop the others" || tail -5 "$tmp/err" | sed 's/^/# /'
ok "it is named" grep -q 'list-lr1e-3-vocab100-s1 failed' "$tmp/err"
for bad in 'grid = train.lrr: 1 2;did you mean "train.lr"' 'grid = train.lr: 1e-3 1e-3;is there twice' 'grid = train.lr;want section.key: value' \
    'seeds = 2;give grid or list' 'grid = train.lr: 99;above 10|at most 10|10'; do
    file bad "${bad%;*}"
    go SWEEP=bad
    is "$? $(grep -cE "${bad##*;}" "$tmp/err")" "2 1" "refused: ${bad%;*}" || sed 's/^/# /' "$tmp/err"
done
for bad in 'metric = nosuch;no metric is called "nosuch"; there are nll_token, bits_byte' 'metric = bits_byte;the runs will have no bits_byte .*: eval.documents is off' \
    'metric = judge_single;no judge is set' 'metric = acc;eval.tasks names no choice task' 'fit = train.lrr;sweep.fit: no cell sets train.lrr'; do
    file bad "grid = train.lr: 1e-3 2e-3
${bad%%;*}"
    go SWEEP=bad
    is "$? $(grep -cE "${bad#*;}" "$tmp/err") $(ls -d "$tmp"/runs/bad-* 2>/dev/null | wc -l)" "2 1 0" "refused before anything is trained: ${bad%%;*}" || sed 's/^/# /' "$tmp/err"
done
go SWEEP=nosuch
ok "an unknown sweep names those there are" grep -q 'there are:.*lr' "$tmp/err"

# ---- two options, one seed: a setting is no seed
file two 'grid = train.lr: 5e-4 2e-3 | train.batch: 2 4'
go SWEEP=two
is $? 0 "a grid of two options" || tail -5 "$tmp/err" | sed 's/^/# /'
is "$(grep -c '^train.lr against nll_token, a parabola in its logarithm over 2 runs at 2 values' "$tmp/log")" 2 "has a curve for each value of the second"
is "$(grep -E '^with ' "$tmp/log" | tr '\n' ' ')" "with train.batch=2 with train.batch=4 " "which is named"
is "$(grep -c 'seed sd not estimable: no cell has two seeds' "$tmp/log") $(grep -cE '^ *(0.0005|0.002) +1 +[0-9.]+ +not estimable' "$tmp/log")" "2 4" "and no difference between settings is called a seed sd" || sed 's/^/# /' "$tmp/log"

# ---- data options vary: then each cell has its own
file data 'grid = vocab.size: 300 350'
go SWEEP=data
is "$? $(ls -d "$tmp"/runs/data-*/shards | wc -l)" "0 2" "a grid of vocabularies: each cell makes its own data"
for f in pipelines/sweeps/*.ini; do
    ok "$f can be read" "$ASSAY" sweep "$f" --runs "$tmp/none" --names
done
done_testing
