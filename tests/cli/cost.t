#!/usr/bin/env bash
# Money: entered results, other prices, and a run that moved between machines.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"$ASSAY" result --from pipelines/reference/series.jsonl --out "$tmp/series" --quiet
is $? 0 "published tables become results"
is "$(ls "$tmp/series" | wc -l)" 34 "34 of them"
"$ASSAY" cost "$tmp"/series/series-8x* "$tmp/series/series-3090-fineweb" > "$tmp/out"
is $? 0 "cost"
ok "train, without validation, billed, for 1e9 tokens" grep -qE 'series-8xa100m40 .* 39\.86 +35\.56 +39\.86 +47\.35 +10\.91 ' "$tmp/out"
is "$(grep -c '\*$' "$tmp/out")" 1 "one run is on the front"
ok "the batch size of the least loss, with its interval" grep -q 'optimum 96.6, 90% interval 69.8-200; the best mean is at 104$' "$tmp/out"
"$ASSAY" cost "$tmp"/series/series-8x* --price 8xa100-40=20.64 --price 1 > "$tmp/out"
ok "--price HARDWARE=P" grep -qE 'series-8xa100m40 .* 79\.72 +71\.12 +79\.72 +- ' "$tmp/out"
ok "--price P for the others" grep -qE 'series-8xb200m160 .* 1\.16 +0\.98 ' "$tmp/out"
"$ASSAY" cost "$tmp"/series/series-8x* --price 8xa100-40=20.64 > "$tmp/out"
ok "a price of one machine leaves the others' bills" grep -qE 'series-8xa100m80 .* 48\.76 ' "$tmp/out"
ok "and takes that machine's away" grep -qE 'series-8xa100m40 .* 79\.72 +71\.12 +79\.72 +- ' "$tmp/out"
"$ASSAY" cost "$tmp"/series/series-8x* --price 8xa100=1 > "$tmp/out" 2> "$tmp/err"
is "$? $(grep -c 'none of these runs used it; they used: 8xa100-40, 8xa100-80, 8xb200-160, 8xh100-80$' "$tmp/err")" "2 1" "a machine that nobody used is refused with those there are"
"$ASSAY" cost "$tmp"/series/series-8x* --metric nosuch > "$tmp/out" 2> "$tmp/err"
is "$? $(grep -c 'none of these runs has it; there are: .*nll_token' "$tmp/err")" "2 1" "so is a metric that no run has" || cat "$tmp/err"
"$ASSAY" cost "$tmp"/series/series-8x* --loss 4 > "$tmp/out"
ok "without a curve no loss was missed" grep -qE '^series-8xa100m40 +no curve' "$tmp/out"
"$ASSAY" cost "$tmp/series" > "$tmp/out"
ok "with all of the series eight more runs stand at batch 96" grep -q 'over 13 runs alike but for it: optimum 89.5, 90% interval 79.1-103; the best mean is at 104, outside of that interval' "$tmp/out" || tail -1 "$tmp/out"
"$BUILD/tests/results" "$tmp/bits.msgpack" bits g 1
ok "without nll_token the first primary metric stands beside the cost" grep -q ' bits_byte  front' <("$ASSAY" cost "$tmp/bits.msgpack")
"$ASSAY" cost "$tmp/series/series-baseline" --price a=b > "$tmp/out" 2>&1
is $? 2 "a price that is none is refused"
"$ASSAY" cost "$tmp"/series/series-8x* "$tmp/series/series-3090-fineweb" --format csv > "$tmp/csv"
"$ASSAY" cost "$tmp"/series/series-8x* "$tmp/series/series-3090-fineweb" --format json > "$tmp/json"
is "$(python3 - "$tmp" <<'PY'
import csv, json, sys
rows = list(csv.DictReader(open(sys.argv[1] + "/csv", newline="")))
doc = json.load(open(sys.argv[1] + "/json"))
print(len(rows), len(doc["runs"]), {len(r) for r in rows}, rows[0]["currency"], round(float(rows[0]["cost_train"]), 4) > 0)
same = all((r[k] == "") == (j[k] is None) and (r[k] == "" or isinstance(j[k], str) or abs(float(r[k]) - j[k]) <= 1e-9 * abs(j[k])) for r, j in zip(rows, doc["runs"]) for k in r if k not in ("front", "nll_token"))
print(same, any("" in r.values() for r in rows), not any("-" == c or "%" in c for r in rows for c in r.values()), doc["metric"], sum(j["front"] for j in doc["runs"]), doc["batch_size"]["optimum"] > 90)
PY
)" "5 5 {23} USD True
True True True nll_token 1 True" "csv and json: the same numbers as they are, unknown ones empty or null, with the currency"
# ---- where the series says otherwise
"$ASSAY" result --from pipelines/reference/series.jsonl --disagreements --format md > "$tmp/out"
is "$? $(grep -c '^|' "$tmp/out")" "0 17" "its disagreements with our formulas are printed by name"
ok "and stand in docs/metrics.md, word for word" diff <(grep '^|' "$tmp/out") <(sed -n '/^## Where the reference series/,/^## /p' docs/metrics.md | grep '^|')
"$ASSAY" result --disagreements > "$tmp/log" 2>&1
is $? 2 "which is asked of a publication"
is "$(grep -c '"vocabulary=' pipelines/reference/series.jsonl) $("$ASSAY" cat "$tmp/series/series-baseline/result.msgpack" | grep -c '"vocab=gpt2"')" "0 1" "entered results name settings as ours do"
echo '{"run": "x"}' > "$tmp/nosource.jsonl"
"$ASSAY" result --from "$tmp/nosource.jsonl" --out "$tmp/o" > "$tmp/log" 2>&1
is "$? $(grep -c 'has no source' "$tmp/log")" "1 1" "an entered result without a source is refused"
echo '{"run": "../x", "source": "s"}' > "$tmp/outside.jsonl"
"$ASSAY" result --from "$tmp/outside.jsonl" --out "$tmp/o" > "$tmp/log" 2>&1
is $? 1 "so is one whose name is a path"
printf '{"run": "x", "source": "s"}\n{"run": "x", "source": "s"}\n' > "$tmp/twice.jsonl"
"$ASSAY" result --from "$tmp/twice.jsonl" --out "$tmp/o" > "$tmp/log" 2>&1
ok "and one that stands twice, by its line" grep -q 'line 2' "$tmp/log"

# ---- a run that moved: stopped on one machine, killed on a second, ended on a third
mkdir -p "$tmp/run" "$tmp/files"
cat > "$tmp/files/t.ini" <<'INI'
[data]
kind = corpus
docs = 300
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
tokens = 16K
batch = 4
checkpoint_every = 10
val_every = 20
val_tokens = 512
[eval]
instruct = false
documents = false
INI
for m in a:3600 b:36000; do
    printf '[hardware]\nname = %s\ndevice = X\ncount = 1\npeak_tflops = 1\nprice_hour = %s\nprice_source = test\nprice_date = 2026-01-01\n' "${m%:*}" "${m#*:}" > "$tmp/${m%:*}.ini"
done
run() { make run DEPS=0 BUILD="$BUILD" RUN_FILES="$tmp/files" RUNS_DIR="$tmp/runs" RUN=t "$@" > "$tmp/log" 2>&1; }
run HARDWARE_INI="$tmp/a.ini" SET=train.max_hours=1e-9
is $? 2 "stopped after one step on machine a"
is "$(grep -c '"price_hour":3600' "$tmp/runs/t/pretrain/segments.jsonl")" 1 "which segments.jsonl names"
"$ASSAY" train --config "$tmp/runs/t/run.ini" --set train.max_hours=0 --shards "$tmp/runs/t/shards" \
    --out "$tmp/runs/t/pretrain" --hardware "$tmp/b.ini" --quiet > "$tmp/log" 2>&1
is $? 0 "ended on machine b"
run HARDWARE_INI=
is $? 0 "collected" || sed 's/^/# /' "$tmp/log"
"$ASSAY" cat "$tmp/runs/t/result.msgpack" > "$tmp/json"
python3 - "$tmp/json" > "$tmp/out" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
s = r["segments"]
print([x["hardware"] for x in s], [x["first_step"] for x in s], [x["steps"] for x in s], sum(x["tokens"] for x in s) == r["tokens"])
t = r["timing"]
print(abs(sum(x["money"] for x in s) + 10 * (t["train_seconds"] - sum(x["seconds"] for x in s)) - r["cost_train"]) < 1e-9,
      0 < t["val_seconds"] < t["train_seconds"], r["cost_total"] > r["cost_train"], "cost_billed" in r)
PY
is "$(sed -n 1p "$tmp/out")" "['a', 'b'] [1, 2] [1, 62] True" "two segments, every token in one of them"
is "$(sed -n 2p "$tmp/out")" "True True True False" "each at its machine's price; validation timed; billed not guessed"
"$ASSAY" train --config "$tmp/runs/t/run.ini" --set train.backend=cpu --set train.max_hours=0 --shards "$tmp/runs/t/shards" \
    --out "$tmp/foreign/pretrain" --hardware pipelines/hardware/8xa100-40.ini > "$tmp/log" 2>&1
is "$? $(grep -c 'names 8 x A100 40GB SXM4 (backend = cuda), this run is on cpu: no MFU, no price' "$tmp/log")" "0 1" "a run on the CPU under a GPU's hardware file warns" || sed 's/^/# /' "$tmp/log"
is "$(grep -c A100 "$tmp/foreign/pretrain/segments.jsonl") $(grep -c '"mfu": *null' "$tmp/foreign/pretrain/manifest.json")" "0 1" "and claims neither the machine nor a share of its peak"
cp "$tmp/runs/t/run.ini" "$tmp/foreign/run.ini"
"$ASSAY" result --run "$tmp/foreign" --hardware pipelines/hardware/8xa100-40.ini > "$tmp/log" 2>&1
is "$? $(grep -c 'names 8 x A100.* the run was on cpu: the result has no peak, price or cost' "$tmp/log")" "0 1" "nor does its result" || sed 's/^/# /' "$tmp/log"
"$ASSAY" cat "$tmp/foreign/result.msgpack" > "$tmp/foreign.json"
is "$(grep -oE 'A100|10\.32|"mfu":[0-9.e-]+|"cost_[a-z]+":[0-9.e-]+' "$tmp/foreign.json" | tr '\n' ' ')" "" "which has no card, price, MFU or cost of it"
ok "cost shows the segments" grep -q 'Segments of runs that moved' <("$ASSAY" cost "$tmp/runs/t")
"$ASSAY" cost "$tmp/runs/t" --price a=7200 --format json > "$tmp/json"
is "$(python3 - "$tmp/json" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))["runs"][0]
print([round(s["money"] / s["seconds"], 6) for s in r["segments"]], r["mfu"])
PY
)" "[2.0, 10.0] None" "--price reaches the segments; no MFU over two machines"
a=$("$ASSAY" cost "$tmp/runs/t" | awk '$1 == "t" && $2 == "a" { print $6 }')
ok "in the table too: $a" awk -v a="$a" -v b="$("$ASSAY" cost "$tmp/runs/t" --price a=36000 | awk '$1 == "t" && $2 == "a" { print $6 }')" 'BEGIN { exit !(b > a + .005 || (a == 0 && b > 0)) }'
is "$("$ASSAY" compare "$tmp/runs" --list --columns timing.mfu --format csv | tail -1 | tr -d '\r')" "t," "nor in the list"
before=$(cd "$tmp/runs/t" && find . -name '*manifest.json' | sort | xargs sha256sum)
run HARDWARE_INI= SET=run.billed=12.5
ok "billed, as the run file says" grep -q '"cost_billed":12.5' <("$ASSAY" cat "$tmp/runs/t/result.msgpack")
is "$(diff <(echo "$before") <(cd "$tmp/runs/t" && find . -name '*manifest.json' | sort | xargs sha256sum) | grep -c '^> ')" 1 "and nothing but the result ran for it"
ok "cost and time to a loss" grep -qE '^t  +[0-9.]+ \[' <("$ASSAY" cost "$tmp/runs/t" --loss 5.9)
ok "a loss that was not reached" grep -qE '^t  +not reached' <("$ASSAY" cost "$tmp/runs/t" --loss 0.1)
done_testing
