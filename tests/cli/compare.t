#!/usr/bin/env bash
# compare as people call it: listing, conditions, order, columns, formats, tags, unfinished runs, and the
# seed noise of the published series.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
make="$BUILD/tests/results"
mkdir -p "$tmp/runs"/{a,b,c,killed}/pretrain
"$make" "$tmp/runs/a/result.msgpack" a base 1 n=100 lr=1e-3
"$make" "$tmp/runs/b/result.msgpack" b base 2 n=100 lr=1e-3 shift=0.004
"$make" "$tmp/runs/c/result.msgpack" c new 3 n=100 lr=2e-3 effect=0.05 batch=208
printf '[run]\ngroup = new\n[train]\nseed = 4\n' > "$tmp/runs/killed/run.ini"
printf '{"step":7,"tokens":700,"seconds":3}\n{"step":8,' > "$tmp/runs/killed/pretrain/metrics.jsonl"
compare() { "$ASSAY" compare "$tmp/runs" "$@" > "$tmp/out" 2> "$tmp/err"; }
names() { awk 'NR > 1 {print $1}' "$tmp/out" | tr '\n' ' '; }

compare --list
is "$?:$(names)" "0:a b c killed " "--list shows the runs, unfinished ones too"
ok "a killed run is shown as such" grep -q 'killed at step 7' "$tmp/out"
mkdir -p "$tmp/un/sized/pretrain" "$tmp/un/unsized/pretrain"
printf '[vocab]\nsize = 400\n[model]\nlayers = 1\nheads = 2\nwidth = 32\ncontext = 64\n' > "$tmp/un/sized/run.ini"
printf '[data]\nkind = shards\nshards = x\n' > "$tmp/un/unsized/run.ini"
"$ASSAY" compare --list "$tmp/un" > "$tmp/out"
ok "a run without a result has the size that its run file says" grep -qE '^sized +sized +1 +27[0-9]{3}|^sized +sized +1 +27\.[0-9]k' "$tmp/out" || cat "$tmp/out"
mkdir -p "$tmp/un/broken"
printf '[train]\nlrr = 1\n' > "$tmp/un/broken/run.ini"
"$ASSAY" compare --list "$tmp/un" > "$tmp/out" 2> "$tmp/err"
ok "a run file that cannot be read is listed under its own name, and nothing of it is known" grep -qE '^broken +broken +- +- +- +- .*unreadable: .*unknown key "train.lrr"' "$tmp/out"
cp "$tmp/runs/a/result.msgpack" "$tmp/un/sized/"
"$ASSAY" compare "$tmp/un" > "$tmp/out" 2> "$tmp/err"
ok "nor are its options" grep -qE '^  train.batch +\? +104 ' "$tmp/out" || sed 's/^/# /' "$tmp/out"
rm -r "$tmp/un/broken" "$tmp/un/sized/result.msgpack"
"$ASSAY" compare --list "$tmp/un" > "$tmp/out"
ok "or an unknown one, never 0" grep -qE '^unsized +unsized +1 +- ' "$tmp/out"
compare --list --where 'train.lr>1e-3'
is "$(names)" "c " "--where takes a number of the run file"
compare --list --where 'status~killed'
is "$(names)" "killed " "or a text"
compare --list --by=-bits_byte
is "$(names)" "c b a killed " "--by takes a metric, descending"
compare --list --sort bits_byte
is "$(names)" "a b c killed " "--sort is the same"
compare --list --columns seed,train.batch,bits_byte --digits 2
ok "--columns and --digits" grep -qE '^c +3 +208 +1\.0[0-9]$' "$tmp/out"
compare --list --columns seed,bits_byte --format csv
is "$(sed -n 1p "$tmp/out" | tr -d '\r')" "run,seed,bits_byte" "as CSV"
ok "with all digits" grep -qE '^c,3,1\.0[0-9]{12,}' "$tmp/out"
compare --list --format csv
is "$(sed -n '1p;2p' "$tmp/out" | cut -d, -f1,3-6,9 | tr -d '\r' | tr '\n' ' ')" "run,seed,parameters,tokens,steps,cost_train a,1,163009536,3260190720,30613, " "without columns CSV has numbers, not texts for people"
compare --list --columns nosuch
is $? 2 "an unknown column is refused"
compare --list --where 'seed>9'
is $? 1 "nothing left is said"

"$ASSAY" tag "$tmp/runs/b" --add best --note 'try again' && "$ASSAY" tag "$tmp/runs/killed" --add best
is $? 0 "tags for a result and for a run without one"
compare --list --where tags=best
is "$(names)" "b killed " "are found"
"$ASSAY" tag "$tmp/runs/b" --remove best
compare --list --where tags=best
is "$(names)" "killed " "and can go"
"$ASSAY" cat "$tmp/runs/b/result.notes.msgpack" | grep -q 'try again'
is $? 0 "assay cat shows the notes"
"$ASSAY" tag "$tmp/runs/b" 2> /dev/null
is $? 2 "nothing to say is refused"
"$ASSAY" tag "$tmp/runs/b" --add "two words" 2> "$tmp/err"
is "$? $(grep -c 'a tag is one word' "$tmp/err")" "2 1" "a tag of two words too, which no list could tell from two"
pids=
for i in 1 2 3 4 5 6 7 8; do
    "$ASSAY" tag "$tmp/runs/c" --add "w$i" & pids="$pids $!"
done
rc=0
for p in $pids; do wait "$p" || rc=1; done
is "$rc $("$ASSAY" cat "$tmp/runs/c/result.notes.msgpack" | wc -l)" "0 8" "eight writers at once wait for each other"

compare
is $? 0 "a comparison of all" || cat "$tmp/err"
ok "its baseline is the first that was measured" grep -q '^4 runs against a$' "$tmp/out"
"$ASSAY" compare "$tmp/un" > "$tmp/keep" 2>&1
ok "or the first, when none was" grep -q '^2 runs against sized$' "$tmp/keep" || sed 's/^/# /' "$tmp/keep"
ok "the killed run was not measured" grep -qE '^ *killed .*not measured' "$tmp/out"
ok "options that differ" grep -qE 'train.lr +0.001 +0.001 +0.002' "$tmp/out"
ok "what the items could show" grep -q 'these items show a difference of 0.0[0-9]* with 80% power' "$tmp/out"
compare --where group=base
ok "conditions hold for comparisons too" grep -q '^2 runs against a$' "$tmp/out"
compare --format md
ok "Markdown has a table a metric" test "$(grep -c '^### ' "$tmp/out")" = 2
compare --format csv
is "$(python3 -c 'import csv, sys; print({len(r) for r in csv.reader(open(sys.argv[1], newline=""))})' "$tmp/out")" "{20}" \
   "CSV has 20 columns in every row"
python3 - "$tmp/out" <<'PY' > "$tmp/seen"
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], newline="")))
c = {(r["metric"], r["run"] or r["group"], r["scope"]): r for r in rows}
x = c["bits_byte", "c", "checkpoint"]
print(0 < float(x["p"]) < float(x["p_holm"]) <= 1, c["bits_byte", "a", "checkpoint"]["p"] == "")
r = c["bits_byte", "new", "recipe"]
print(r["run"] == "" and float(r["difference"]) > 0.04 and r["p"] == "" and r["verdict"].startswith("not estimable: 1 seed"))
PY
is "$(tr '\n' ' ' < "$tmp/seen")" "True True True " "CSV tells p from p_holm, and has a row a recipe"
compare --format json
python3 - "$tmp/out" << 'PY'
import json, sys
c = json.load(open(sys.argv[1]))
bits = next(m for m in c["metrics"] if m["name"] == "bits_byte")
d = next(r for r in bits["runs"] if r["run"] == "c")["difference"]
assert abs(d["value"] - 0.05) < 0.01 and d["lo"] < d["value"] < d["hi"], d
assert next(r for r in bits["recipes"] if r["group"] == "new")["not_estimable"]
PY
is $? 0 "JSON has differences and what is not estimable"
is "$("$ASSAY" compare "$tmp/runs" --list --columns run,seed --format csv | head -1 | tr -d '\r')" "run,seed" "--columns run does not stand there twice"
"$ASSAY" compare "$tmp/runs" --list --where 'run~(' > "$tmp/out" 2> "$tmp/err"
is $? 2 "a pattern that is none is a mistake of the call"
"$ASSAY" tag "$tmp/runs/b" --add x --remove x > "$tmp/out" 2> "$tmp/err"
is "$? $(grep -c 'which of the two' "$tmp/err")" "2 1" "a tag is not added and removed at once"
"$ASSAY" tag "$tmp/runs/b" --clear-note
is "$? $("$ASSAY" compare "$tmp/runs/b" --list --columns notes --format csv | tail -1 | tr -d '\r')" "0 b," "a note can be cleared"
"$BUILD/tests/results" "$tmp/i1.msgpack" one g 1 n=200
"$BUILD/tests/results" "$tmp/i2.msgpack" two g 2 n=190
"$ASSAY" compare "$tmp/i1.msgpack" "$tmp/i2.msgpack" > "$tmp/out" 2> /dev/null
ok "items that are missing are counted, of either" grep -q "items differ: 10 of the baseline's 200 are missing in it, 0 of its 190 are missing in the baseline" "$tmp/out" || sed 's/^/# /' "$tmp/out"
for s in 1 2 3; do
    "$BUILD/tests/results" "$tmp/a$s.msgpack" "a$s" a $s shift=0.0$s
    "$BUILD/tests/results" "$tmp/b$s.msgpack" "b$s" b $s shift=0.0$s effect=0.0004
done
"$ASSAY" compare "$tmp"/a?.msgpack "$tmp"/b?.msgpack > "$tmp/out" 2> /dev/null
ok "a difference to settle is told with digits: $(grep -o 'settle a difference of [0-9.]*' "$tmp/out" | head -1)" test "$(grep -cE 'settle a difference of 0\.0*[1-9]' "$tmp/out")" -gt 0 -a "$(grep -cE 'settle a difference of [0.]+( |;|$)' "$tmp/out")" = 0 || grep 'settle' "$tmp/out"
"$ASSAY" compare "$tmp/runs" --baseline nobody > /dev/null 2> "$tmp/err"
is "$? $(grep -c 'nobody is not among the runs; there are: a, b, c, killed$' "$tmp/err")" "2 1" "an unknown baseline is refused with the runs there are"
compare --seed-sd nobody
is "$? $(grep -c 'there are: base, new$' "$tmp/err")" "2 1" "an unknown group with the groups"

# one result given twice is one result, however it is called
ln -s a/result.msgpack "$tmp/runs/again.msgpack"
"$ASSAY" compare "$tmp/runs/a" "$tmp/runs/again.msgpack" "$tmp/runs/b" > "$tmp/out" 2> "$tmp/err"
is "$? $(sed -n 1p "$tmp/out")" "0 2 runs against a" "a file given twice stands there once"
ok "and it is said" grep -q 'again.msgpack was named before: it is one result' "$tmp/err"
rm "$tmp/runs/again.msgpack"
cp "$tmp/runs/a/result.msgpack" "$tmp/copy.msgpack"
"$ASSAY" compare "$tmp/runs/a" "$tmp/copy.msgpack" > "$tmp/out" 2> "$tmp/err"
ok "a copy of it is no other seed" grep -qE '^ *a#2 .*\(the same training, no seed of its own\)' "$tmp/out"
"$make" "$tmp/rerun.msgpack" rerun base 1 n=100 shift=0.001
"$ASSAY" compare "$tmp/runs/a" "$tmp/rerun.msgpack" > "$tmp/out" 2> "$tmp/err"
ok "nor is the same seed run again" grep -qE '^ *rerun .*\(same recipe and seed, run again\)' "$tmp/out"

# whose spread the seed sd is
"$make" "$tmp/l1.msgpack" l1 lend 5 n=100 shift=0.002
"$make" "$tmp/l2.msgpack" l2 lend 6 n=100 shift=-0.003
compare "$tmp/l1.msgpack" "$tmp/l2.msgpack"
ok "an sd from one arm says so" grep -q 'new against base.*; seed sd [0-9.e-]* (of base alone: new has 1 seed; df 1:' "$tmp/out"
compare "$tmp/l1.msgpack" "$tmp/l2.msgpack" --seed-sd lend
ok "a borrowed one names its group" grep -q 'new against base.*; seed sd [0-9.e-]* (borrowed from lend; df 1:' "$tmp/out"
compare "$tmp/l1.msgpack" --seed-sd lend
ok "a group of one run has none to lend, and that is said" grep -q 'new against base.*(of base alone: new has 1 seed; none to borrow from lend, which has 1 seed; df 1:' "$tmp/out"

# what a panel says of the runs, on request
"$make" "$tmp/p.msgpack" p g 1 n=100 panel="$tmp/jury"
"$make" "$tmp/q.msgpack" q g 2 n=100 worse=15 panel="$tmp/jury"
"$ASSAY" compare "$tmp/p.msgpack" "$tmp/q.msgpack" --panel "$tmp/jury" > "$tmp/out" 2> "$tmp/err"
is $? 0 "compare --panel" || cat "$tmp/err"
ok "the panel's pass is a metric" grep -q '^judge_joint, jury pass 1: points of 100, higher is better; 100 items' "$tmp/out"
grep -A5 '^judge_joint' "$tmp/out" | grep -qE '^ *q .*-1[0-9]\.[0-9]+ .*worse'
is $? 0 "paired over its items"
"$make" "$tmp/s.msgpack" s g 3 n=100 # judged under the name of its fine-tuning seed
"$make" "$tmp/x.msgpack" s-1 g 3 n=100 panel="$tmp/jury2"
"$make" "$tmp/x.msgpack" s-7 g 3 n=100 worse=90 panel="$tmp/jury2"
"$ASSAY" compare "$tmp/s.msgpack" --panel "$tmp/jury2" > "$tmp/out" 2> "$tmp/err"
ok "a run's fine-tuning seeds are its own, other numbers are not" grep -qE '^ *s +[34][0-9]\.' "$tmp/out"
"$ASSAY" compare "$tmp/runs" --panel "$tmp/jury" > /dev/null 2> "$tmp/err"
is $? 1 "a panel that judged none of the runs is said"

# two results of 10,000 items; the bound is generous, 0.2 s is the aim on a quiet machine
"$make" "$tmp/x.msgpack" x g 1 n=10000 points=1000
"$make" "$tmp/y.msgpack" y g 2 n=10000 points=1000
t0=$(date +%s%N)
"$ASSAY" compare "$tmp/x.msgpack" "$tmp/y.msgpack" > /dev/null
t1=$(date +%s%N)
ok "two runs of 2 x 10,000 items in $(((t1 - t0) / 1000000)) ms" test $(((t1 - t0) / 1000000)) -lt 2000

# the published series: seven seeds of one recipe, sd .0123 (shared/reference: mean 3.6741)
"$ASSAY" result --from pipelines/reference/series.jsonl --out "$tmp/series" > /dev/null 2>&1
"$ASSAY" compare "$tmp/series" --baseline series-baseline --seed-sd series-baseline > "$tmp/out" 2> "$tmp/err"
is $? 0 "the published series compares" || cat "$tmp/err"
ok "its seed sd is .0123 with 6 degrees of freedom" grep -q 'seed sd 0.0123 (borrowed from series-baseline; df 6' "$tmp/out"
ok "another learning rate is better" grep -qE 'series-lr against series-baseline \(1 against 7 seeds\): better' "$tmp/out"
ok "a bias in q, k and v is within the noise" grep -qE 'series-qkv-bias against series-baseline \(1 against 7 seeds\): no difference seen' "$tmp/out"
ok "without items there is no verdict on checkpoints" grep -q 'not estimable: no per-item values' "$tmp/out"
done_testing
