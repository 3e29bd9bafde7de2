#!/usr/bin/env bash
# export against strangers: a real MLflow server and TensorBoard's own reader.
#   ASSAY_PYTHON=/path/to/venv/bin/python   with: pip install mlflow tensorboard
. tests/cli/tap.sh
: "${TMPDIR:=/tmp}"
if [ -z "${ASSAY_PYTHON:-}" ] || ! "$ASSAY_PYTHON" -c 'import mlflow, tensorboard' 2> /dev/null; then
    echo "ok 1 # SKIP \$ASSAY_PYTHON with mlflow and tensorboard is not here"
    echo "1..1"
    exit 0
fi
tmp=$(mktemp -d)
trap 'kill $server 2> /dev/null; rm -rf "$tmp"' EXIT
export OMP_NUM_THREADS=1
mkdir -p "$tmp/files"
cat > "$tmp/files/tiny.ini" <<'INI'
[run]
title = a "tiny" run
tags = small, quick
notes = nothing of note
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
tokens = 300K
batch = 4
[eval]
instruct = false
INI
make run DEPS=0 BUILD="$BUILD" RUN_FILES="$tmp/files" RUNS_DIR="$tmp/runs" RUN=tiny > "$tmp/log" 2>&1
is $? 0 "a run" || tail -3 "$tmp/log" | sed 's/^/# /'
"$ASSAY" cat "$tmp/runs/tiny/result.msgpack" > "$tmp/result.json"

# ---- TensorBoard
"$ASSAY" export --to tensorboard --out "$tmp/tb" "$tmp/runs/tiny" --quiet
is $? 0 "event file"
"$ASSAY_PYTHON" tests/golden/read_events.py --accumulate "$tmp/tb/tiny" > "$tmp/tb.json" 2> "$tmp/err"
is $? 0 "TensorBoard reads it" || tail -2 "$tmp/err" | sed 's/^/# /'
cp "$tmp/tb.json" "$tmp/tb1.json"
"$ASSAY_PYTHON" - "$tmp" > "$tmp/out" <<'PY'
import json, struct, sys
tmp = sys.argv[1]
r = json.load(open(tmp + "/result.json")); t = json.load(open(tmp + "/tb.json"))
f32 = lambda v: struct.unpack("f", struct.pack("f", v))[0]
c = r["curve"]
print(t["train/loss"] == ["scalars", [[s, f32(v)] for s, v in zip(c["step"], c["loss"])]], len(c["step"]) > 500)
m = [x for x in r["metrics"] if x["name"] == "nll_token" and x["task"] == "windows"][0]
print(t["eval/windows/nll_token"][1] == [[r["steps"], f32(m["value"])]], t["config/text_summary"][0])
print("| train.batch | 4 |" in t["config/text_summary"][1][0])
PY
is "$(tr '\n' ' ' < "$tmp/out")" "True True True text True " "every point of the curve, the metrics, the options"
"$ASSAY" export --to tensorboard --out "$tmp/tb" "$tmp/runs/tiny" --quiet
"$ASSAY_PYTHON" tests/golden/read_events.py --accumulate "$tmp/tb/tiny" > "$tmp/tb.json" 2> /dev/null
ok "again: the same, nothing twice" cmp -s "$tmp/tb.json" "$tmp/tb1.json"

# ---- MLflow
port=$("$ASSAY_PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
(cd "$tmp" && exec "$ASSAY_PYTHON" -m mlflow server --backend-store-uri "sqlite:///$tmp/m.db" --artifacts-destination "$tmp/art" \
    --host 127.0.0.1 --port "$port" --workers 1 > "$tmp/server.log" 2>&1) &
server=$!
for _ in $(seq 120); do curl -sf "http://127.0.0.1:$port/health" > /dev/null && break; sleep 1; done
ok "an MLflow server" curl -sf "http://127.0.0.1:$port/health" || tail -5 "$tmp/server.log" | sed 's/^/# /'
echo '<!doctype html><title>report</title>' > "$tmp/report.html"
out() { "$ASSAY" export --to mlflow --url "http://127.0.0.1:$port/" --experiment "two words" "$@" > "$tmp/out" 2> "$tmp/err"; }
out "$tmp/runs" --report "$tmp/report.html"
is $? 0 "export" || sed 's/^/# /' "$tmp/err"
is "$(grep -c ' new, ' "$tmp/out")" 1 "one new run"
cat > "$tmp/look.py" <<'PY'
import json, sys
import mlflow
from mlflow.tracking import MlflowClient
tmp, port = sys.argv[1:3]
c = MlflowClient(f"http://127.0.0.1:{port}")
r = json.load(open(tmp + "/result.json"))
e = c.get_experiment_by_name("two words")
runs = c.search_runs([e.experiment_id])
one = [x for x in runs if x.data.tags["assay.run"] == "tiny"][0]
h = c.get_metric_history(one.info.run_id, "train/loss")
v = r["curve"]
print("runs", len(runs), "status", one.info.status, "name", one.info.run_name)
print("points", len(h) == len(v["step"]), sorted((m.step, m.value) for m in h) == sorted(zip(v["step"], v["loss"])))
print("params", one.data.params["train.batch"], one.data.params["model.width"], len(one.data.params) > 70)
n = [x for x in r["metrics"] if x["name"] == "nll_token" and x["task"] == "windows"][0]
print("metric", one.data.metrics["eval/windows/nll_token"] == n["value"], len(c.get_metric_history(one.info.run_id, "eval/windows/nll_token")))
print("tags", one.data.tags["assay.complete"], one.data.tags["assay.tag.small"], one.data.tags["mlflow.note.content"])
print("artefacts", sorted(a.path for a in c.list_artifacts(one.info.run_id)))
p = mlflow.artifacts.download_artifacts(run_id=one.info.run_id, artifact_path="result.msgpack", tracking_uri=f"http://127.0.0.1:{port}")
print("same bytes", open(p, "rb").read() == open(tmp + "/runs/tiny/result.msgpack", "rb").read())
PY
look() { "$ASSAY_PYTHON" "$tmp/look.py" "$tmp" "$port" 2> "$tmp/err"; }
look > "$tmp/seen"
cat > "$tmp/want" <<'TXT'
runs 1 status FINISHED name tiny
points True True
params 4 32 True
metric True 1
tags 1 1 nothing of note
artefacts ['report.html', 'result.msgpack']
same bytes True
TXT
ok "MLflow's own client sees every point, option, metric, tag and artefact" diff "$tmp/want" "$tmp/seen" || tail -3 "$tmp/err" | sed 's/^/# /'
out "$tmp/runs" --report "$tmp/report.html"
is "$(grep -c 'was complete, 0 of' "$tmp/out")" 1 "again: nothing is sent twice" || sed 's/^/# /' "$tmp/out" "$tmp/err"
look > "$tmp/seen"
ok "and nothing has doubled" diff "$tmp/want" "$tmp/seen"

# cut in the middle: as if complete had never been said and a part of the points had not arrived
"$ASSAY_PYTHON" - "$tmp" > "$tmp/o" 2>&1 <<'PY'
import sqlite3, sys
d = sqlite3.connect(sys.argv[1] + "/m.db")
d.execute("delete from tags where key = 'assay.complete'")
d.execute("delete from metrics where key = 'train/loss' and step % 3 = 0")
d.execute("delete from metrics where key = 'train/norm'")
d.commit()
PY
out "$tmp/runs" --report "$tmp/report.html"
is "$(grep -c 'went on, ' "$tmp/out")" 1 "an export that was cut goes on" || sed 's/^/# /' "$tmp/out" "$tmp/err"
look > "$tmp/seen"
ok "and is whole" diff "$tmp/want" "$tmp/seen"

# another content: a new run in its place
make run DEPS=0 BUILD="$BUILD" RUN_FILES="$tmp/files" RUNS_DIR="$tmp/runs" RUN=tiny SET=train.lr=2e-3 > "$tmp/log" 2>&1
"$ASSAY" cat "$tmp/runs/tiny/result.msgpack" > "$tmp/result.json"
out "$tmp/runs" --report "$tmp/report.html"
is "$(grep -c ' new, ' "$tmp/out")" 1 "a run that was made anew" || sed 's/^/# /' "$tmp/out" "$tmp/err"
look > "$tmp/seen"
ok "takes the old one's place" diff "$tmp/want" "$tmp/seen"
"$ASSAY" result --from pipelines/reference/series.jsonl --out "$tmp/series" --quiet
out "$tmp/series"
is "$? $(grep -c ' new, ' "$tmp/out")" "0 34" "the reference series" || sed 's/^/# /' "$tmp/err"
out "$tmp/series"
is "$? $(grep -c 'was complete, 0 of' "$tmp/out")" "0 34" "again: 34 that were complete"
done_testing
