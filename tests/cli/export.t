#!/usr/bin/env bash
# assay export: event files as TensorBoard's reader saw them once (tests/golden/make_events.sh), and MLflow's REST API on
# loopback, with faults. tests/long/export.t asks a real MLflow server and TensorBoard itself.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'exec 9>&-; rm -rf "$tmp"' EXIT
unset MLFLOW_TRACKING_TOKEN MLFLOW_TRACKING_USERNAME MLFLOW_TRACKING_PASSWORD
"$ASSAY" result --from tests/golden/export.jsonl --out "$tmp/r" --quiet
is $? 0 "a result"

# ---- TensorBoard
"$ASSAY" export --to tensorboard --out "$tmp/tb" "$tmp/r" --quiet
is $? 0 "an event file"
f=$tmp/tb/golden/events.out.tfevents.assay
# All records but the table of options, which grows with the options.
records() { python3 - "$1" <<'PY'
import struct, sys
d, at = open(sys.argv[1], "rb").read(), 0
while at < len(d):
    n = struct.unpack_from("<Q", d, at)[0]
    if b"config/text_summary" not in d[at:at + 12 + n]: print(d[at:at + 16 + n].hex())
    at += 16 + n
PY
}
records "$f" > "$tmp/a"
records tests/golden/export.tfevents > "$tmp/b"
is "$(wc -l < "$tmp/b")" 32 "32 records, without the options"
ok "byte for byte what TensorBoard's reader was shown" cmp "$tmp/a" "$tmp/b"
# the golden reading says what is in the result, so that the golden bytes mean something
python3 - > "$tmp/out" <<'PY'
import json, struct
r = json.loads([l for l in open("tests/golden/export.jsonl") if l[0] == "{"][0])
f32 = lambda v: repr(struct.unpack("f", struct.pack("f", v))[0])
seen = [json.loads(l) for l in open("tests/golden/export.events")]
c, t0 = r["curve"], 1796035492
want = {("train/" + k, s, t0 + w, f32(v)) for k in ("loss", "lr", "norm", "tokens", "seconds") for s, w, v in zip(c["step"], c["seconds"], c[k])}
want |= {("eval/windows/nll_token" + k, 4, t0 + 1.5, f32(v)) for k, v in (("", 5.2514953), ("_lo", 5.2), ("_hi", 5.3))}
want |= {("cost/train", 4, t0 + 1.5, f32(1.5 / 3600 * 10.32)), ("cost/total", 4, t0 + 1.5, f32(2 / 3600 * 10.32)),
         ("model/parameters", 4, t0 + 1.5, f32(29664)), ("time/train_seconds", 4, t0 + 1.5, f32(1.5)),
         ("time/eval_seconds", 4, t0 + 1.5, f32(0.5)), ("time/tokens_per_second", 4, t0 + 1.5, f32(682.6666666666666)),
         ("eval/instruct/acc_exact", 4, t0 + 1.5, "nan")}
got = [(x["tag"], x["step"], x["wall"], x["value"]) for x in seen if x.get("plugin") == "scalars"]
print(seen[0] == {"version": "brain.Event:2", "wall": t0 + 0.25}, len(got) == len(set(got)), set(got) == want)
text = {x["tag"]: x["value"] for x in seen if x.get("plugin") == "text"}
print("| train.lr | 0.003" in text["config/text_summary"], "größer" in text["run/text_summary"])
PY
is "$(tr '\n' ' ' < "$tmp/out")" "True True True True True " "and that reading holds every point and text of the result, once"
"$ASSAY" export --to tensorboard --out "$tmp/tb" "$tmp/r" --quiet
is "$(ls "$tmp/tb/golden" | wc -l)" 1 "again: one file, in the old one's place"
# another run of that name, in another folder
mkdir -p "$tmp/r2"
sed "s/\"train\": {/\"train\": {\"seed\": 77, /" tests/golden/export.jsonl > "$tmp/other.jsonl"
"$ASSAY" result --from "$tmp/other.jsonl" --out "$tmp/r2" --quiet
cp "$f" "$tmp/keep"
"$ASSAY" export --to tensorboard --out "$tmp/tb" "$tmp/r2" --quiet 2> "$tmp/err"
is "$? $(grep -c 'golden is of another run of that name' "$tmp/err")" "1 1" "another run of that name is not written over the first" || sed 's/^/# /' "$tmp/err"
ok "which is left as it was" cmp "$f" "$tmp/keep"
"$ASSAY" export --to tensorboard --out "$tmp/tb2" "$tmp/r" "$tmp/r2" --quiet
is "$? $(ls "$tmp/tb2" | tr '\n' ' ')" "0 golden golden#2 " "two at once get folders of their own"
ok "--replace writes over it" "$ASSAY" export --to tensorboard --out "$tmp/tb" --replace "$tmp/r2" --quiet
mkdir -p "$tmp/r3/good" "$tmp/r3/bad"
cp "$tmp/r/golden/result.msgpack" "$tmp/r3/good/"
head -c 300 "$tmp/r/golden/result.msgpack" > "$tmp/r3/bad/result.msgpack"
"$ASSAY" export --to tensorboard --out "$tmp/tb3" "$tmp/r3" 2> "$tmp/err"
is "$? $(ls "$tmp/tb3") $(grep -c 'bad is left out: it could not be read' "$tmp/err")" "0 golden 1" "a result that cannot be read is left out and named"
"$ASSAY" export --to tensorboard "$tmp/r" > "$tmp/log" 2>&1
is $? 2 "without --out it is refused"

# ---- MLflow on loopback
serve() { # script; sets $port, $tmp/log.jsonl
    exec 9>&-
    rm -f "$tmp/log.jsonl" "$tmp/in" "$tmp/port"
    mkfifo "$tmp/in"
    "$BUILD/tests/httpd" "$1" --log "$tmp/log.jsonl" --seconds 60 < "$tmp/in" > "$tmp/port" &
    exec 9> "$tmp/in"
    until [ -s "$tmp/port" ]; do sleep 0.02; done
    port=$(cat "$tmp/port")
}
out() { "$ASSAY" export --to mlflow --url "http://127.0.0.1:$port" "$tmp/r" "$@" > "$tmp/out" 2> "$tmp/err"; }
api=/api/2.0/mlflow
cat > "$tmp/new" <<TXT
on GET $api/experiments/get-by-name*
status 404
body {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "none"}
on POST $api/experiments/create
body {"experiment_id": "7"}
on POST $api/runs/search
body {}
on POST $api/runs/create
body {"run": {"info": {"run_id": "abc", "artifact_uri": "mlflow-artifacts:/7/abc/artifacts"}}}
on POST $api/runs/log-batch
body {}
on POST $api/runs/update
body {}
on PUT /api/2.0/mlflow-artifacts/artifacts/7/abc/artifacts/*
body {}
TXT
serve "$tmp/new"
echo '<title>r</title>' > "$tmp/report.html"
MLFLOW_TRACKING_USERNAME=me MLFLOW_TRACKING_PASSWORD=s3cret out --experiment "my runs" --report "$tmp/report.html"
is $? 0 "a new run" || sed 's/^/# /' "$tmp/err"
python3 - "$tmp" > "$tmp/seen" <<'PY'
import json, sys
log = [json.loads(l) for l in open(sys.argv[1] + "/log.jsonl")]
body = lambda x: json.loads(x["body"]) if x["body"] else None
path = lambda x: x["path"].replace("/api/2.0/mlflow/", "")
print(path(log[0]), body(log[1]))
batches = [body(x) for x in log if path(x) == "runs/log-batch"]
points = [m for b in batches for m in b.get("metrics", [])]
params = [p for b in batches for p in b.get("params", [])]
tags = {t["key"]: t["value"] for b in batches for t in b.get("tags", [])}
print(len(points), len({(m["key"], m["step"]) for m in points}), max(len(b.get("params", [])) for b in batches) <= 100, len({p["key"] for p in params}) == len(params))
print([m for m in points if m["key"] == "train/loss"][3], [m["value"] for m in points if m["key"] == "eval/instruct/acc_exact"])
print(tags["assay.complete"], list(batches[-1]) == ["run_id", "tags"], tags["assay.tag.quick"], tags["mlflow.note.content"] == "two\nlines")
print([path(x).split("/")[-1] for x in log if x["method"] == "PUT"], [len(x["body"]) > 100 for x in log if x["method"] == "PUT"])
print(body([x for x in log if path(x) == "runs/create"][0])["start_time"], body([x for x in log if path(x) == "runs/update"][0]))
print(all("Authorization: Basic bWU6czNjcmV0" in x["headers"] for x in log))
PY
cat > "$tmp/want" <<'TXT'
experiments/get-by-name?experiment_name=my%20runs {'name': 'my runs'}
30 30 True True
{'key': 'train/loss', 'value': 1e-30, 'timestamp': 1796035493500, 'step': 4} ['NaN']
1 True 1 True
['result.msgpack', 'report.html'] [True, False]
1796035492000 {'run_id': 'abc', 'status': 'FINISHED', 'end_time': 1796035493500}
True
TXT
ok "experiment, run, points with steps, parameters in batches, tags, artefacts; complete is said last" diff "$tmp/want" "$tmp/seen"
is "$(grep -c s3cret "$tmp/out" "$tmp/err" | grep -v ':0')" "" "the password is nowhere printed"
content=$(python3 -c '
import json, sys
for l in open(sys.argv[1] + "/log.jsonl"):
    x = json.loads(l)
    if x["path"].endswith("runs/create"): print([t["value"] for t in json.loads(x["body"])["tags"] if t["key"] == "assay.content"][0])' "$tmp")

# ---- runs without a result
mkdir -p "$tmp/k/dead/pretrain" "$tmp/k/bad/pretrain" "$tmp/k/new"
for r in dead bad new; do printf '[train]\nseed = 1\n' > "$tmp/k/$r/run.ini"; done
echo '{"step":5,"tokens":50,"seconds":2}' > "$tmp/k/dead/pretrain/metrics.jsonl"
echo '{"step":0,"host":"h","started":"2026-11-30T10:44:52Z","hardware":{}}' > "$tmp/k/dead/pretrain/segments.jsonl"
echo '{"step":0,"sentence":"no device"}' > "$tmp/k/bad/pretrain/failed.json"
serve "$tmp/new"
"$ASSAY" export --to mlflow --url "http://127.0.0.1:$port" "$tmp/k" > "$tmp/out" 2> "$tmp/err"
is "$? $(python3 -c '
import json, sys
log = [json.loads(l) for l in open(sys.argv[1] + "/log.jsonl")]
b = lambda end, key: [json.loads(x["body"]).get(key) for x in log if x["path"].endswith(end)]
print(b("runs/create", "run_name"), b("runs/create", "start_time"), b("runs/update", "status"))' "$tmp")" "0 ['bad', 'dead', 'new'] [None, 1796035492000, None] ['FAILED', 'KILLED', 'SCHEDULED']" "one that was killed at a step is KILLED, one that failed FAILED, one that did not begin SCHEDULED" || sed 's/^/# /' "$tmp/err"

there() { # content complete: a server that has the run
    sed "s|^on POST $api/runs/search|&\nbody {\"runs\": [{\"info\": {\"run_id\": \"abc\", \"artifact_uri\": \"mlflow-artifacts:/7/abc/artifacts\"}, \"data\": {\"tags\": [{\"key\": \"assay.run\", \"value\": \"golden\"}, {\"key\": \"assay.content\", \"value\": \"$1\"}, {\"key\": \"assay.complete\", \"value\": \"$2\"}]}}]}\n#|" "$tmp/new" | sed '/^#/{N;s/.*//}'
    printf 'on POST %s/runs/delete\nbody {}\n' "$api"
    printf 'on GET %s/metrics/get-history?run_id=abc&metric_key=train%%2Floss&max_results=25000&page_token=p2\nbody {"metrics": [{"step": "3"}]}\n' "$api"
    printf 'on GET %s/metrics/get-history?run_id=abc&metric_key=train%%2Floss*\nbody {"metrics": [{"step": 1}], "next_page_token": "p2"}\n' "$api"
    printf 'on GET %s/metrics/get-history*\nbody {}\n' "$api"
}
count() { grep -c "\"path\":\"$api/$1\"" "$tmp/log.jsonl"; }
sent() { python3 -c '
import json, sys
for l in open(sys.argv[1] + "/log.jsonl"):
    x = json.loads(l)
    if x["path"].endswith("log-batch"):
        for m in json.loads(x["body"]).get("metrics", []):
            if m["key"] == "train/loss": print(m["step"], end=" ")' "$tmp"; }
there "$content" 1 > "$tmp/s"
serve "$tmp/s"
out
is "$? $(count runs/create) $(sent)" "0 0 " "a run that is complete: no point is sent again" || sed 's/^/# /' "$tmp/err"
there "$content" 0 > "$tmp/s"
serve "$tmp/s"
out
is "$? $(count runs/create) $(sent)" "0 0 2 4 " "one that was cut gets the steps that it lacks, over pages" || sed 's/^/# /' "$tmp/err"
there other 1 > "$tmp/s"
serve "$tmp/s"
out
is "$? $(count runs/delete) $(count runs/create) $(sent)" "0 1 1 1 2 3 4 " "one of other content goes to the bin, a new one is made" || sed 's/^/# /' "$tmp/err"

# ---- faults
{ printf 'on POST %s/runs/log-batch\nstatus 503\nheader Retry-After: 0\ntimes 2\nbody busy\n' "$api"; cat "$tmp/new"; } > "$tmp/s"
serve "$tmp/s"
out
is $? 0 "503 twice: asked again" || sed 's/^/# /' "$tmp/err"
{ printf 'on POST %s/runs/log-batch\nbody {}\nlength 100\ncut 1\n' "$api"; cat "$tmp/new"; } > "$tmp/s"
serve "$tmp/s"
out
is "$? $(count runs/log-batch) $(grep -c 'run it again, it goes on' "$tmp/err")" "4 1 1" "an answer that is lost: not sent blindly again, status 4"
{ printf 'on * *\nstatus 401\nbody no\n'; } > "$tmp/s"
serve "$tmp/s"
MLFLOW_TRACKING_TOKEN=t0ken out
is "$? $(grep -c 'MLFLOW_TRACKING_TOKEN' "$tmp/err") $(grep -c t0ken "$tmp/err")" "1 1 0" "refused: says where keys come from, and not the key"
{ printf 'on * *\nstatus 200\nbody <html>\n'; } > "$tmp/s"
serve "$tmp/s"
out
is "$? $(wc -l < "$tmp/err")" "1 1" "something else than MLflow: one sentence"
sed 's/mlflow-artifacts:/s3:/' "$tmp/new" > "$tmp/s"
serve "$tmp/s"
out
is "$? $(grep -c 'which is no door of the server' "$tmp/err")" "0 1" "artefacts that only a client can write are left, and it is said"
port=9
out --report "$tmp/nosuch.html"
is "$? $(grep -c 'nosuch.html: there is no such file' "$tmp/err")" "1 1" "a report that is not there is seen before the server is asked"
"$ASSAY" export --to mlflow --url ftp://x "$tmp/r" > "$tmp/log" 2>&1
is $? 2 "a URL that is none is refused"
done_testing
