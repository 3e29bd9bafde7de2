#!/usr/bin/env bash
# The whole chain through make, small: from a run file to a comparison; what reruns and what does not.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/files"
{ printf "[run]\ngroup = tiny\n"; small_run lr=3e-3 seeds=2 tune_lr=1e-3; } > "$tmp/files/tiny.ini"
printf 'include = tiny.ini\n[data]\nrun = tiny\n[train]\nseed = 2\n' > "$tmp/files/tiny-2.ini"
go() { make run DEPS=0 BUILD="$BUILD" RUN_FILES="$tmp/files" RUNS_DIR="$tmp/runs" "$@"; }
# Sum of each manifest, by name: what really ran has another one (times are in it).
sums() { (cd "$tmp/runs/tiny" && find . -name '*manifest.json' | sort | xargs sha256sum); }
changed() { diff <(echo "$1") <(sums) | sed -n 's/^> [0-9a-f]* *\.\///p' | sed 's/[.\/]*manifest.json//' | sort | tr '\n' ' '; }

go RUN=tiny > "$tmp/log" 2>&1
if ! is $? 0 "make run: corpus to result"; then # the rest would only say the same again
    sed 's/^/# /' "$tmp/log" | tail -20
    done_testing
fi
ok "the result is there" test -s "$tmp/runs/tiny/result.msgpack"
before=$(sums)
go RUN=tiny > "$tmp/log" 2>&1
is "$(changed "$before")" "" "again: no stage runs"
is "$(grep -c 'up to date' "$tmp/log")" 0 "again: make does not even look at one"

go RUN=tiny SET=eval.max_new_tokens=5 > "$tmp/log" 2>&1
is "$(changed "$before")" "eval/responses-1.msgpack eval/responses-2.msgpack result.msgpack scores/exact-1.msgpack scores/exact-2.msgpack scores/overlap-1.msgpack scores/overlap-2.msgpack " \
   "another answer length: answers, scores and result run again, nothing else"
before=$(sums)
go RUN=tiny SET="eval.max_new_tokens=5 finetune.lr=2e-3" > "$tmp/log" 2>&1
is "$(changed "$before" | tr ' ' '\n' | grep -cE '^(corpus|data|vocab|shards|pretrain|eval/windows|eval/documents)')" 0 \
   "another fine-tuning rate: nothing before fine-tuning runs again"
is "$(changed "$before" | tr ' ' '\n' | grep -cE '^finetune/[0-9]+$')" 2 "and fine-tuning does, for each seed"
before=$(sums)
touch "$tmp/runs/tiny/data/manifest.json"
go RUN=tiny SET="eval.max_new_tokens=5 finetune.lr=2e-3" > "$tmp/log" 2>&1
is "$(changed "$before")" "" "a newer time alone runs nothing"
ok "the stages say so" grep -q 'up to date' "$tmp/log"

go RUN=tiny-2 SET="eval.max_new_tokens=5 finetune.lr=2e-3" > "$tmp/log" 2>&1
is $? 0 "a second seed takes the first run's data" || sed 's/^/# /' "$tmp/log" | tail -20
is "$(changed "$before")" "" "and changes nothing there"
ok "it has no data of its own" test ! -e "$tmp/runs/tiny-2/shards"
"$ASSAY" compare "$tmp/runs" > "$tmp/cmp" 2> "$tmp/err"
is $? 0 "compare reads a folder of runs" || sed 's/^/# /' "$tmp/err"
ok "the table has the loss" grep -q '^nll_token, windows' "$tmp/cmp"
ok "the floor stands beside it" grep -q 'oracle floor [0-9.]*, ends counted' "$tmp/cmp"
ok "the seed is the option that differs" grep -q 'train.seed' "$tmp/cmp"
"$ASSAY" compare --format json "$tmp/runs" | python3 -c 'import json,sys; json.load(sys.stdin)'
is $? 0 "compare --format json is JSON"

# the window rule of the run file
before=$(sums)
opt="eval.max_new_tokens=5 finetune.lr=2e-3"
go RUN=tiny SET="$opt eval.window=96 eval.stride=32" > "$tmp/log" 2>&1
is "$(changed "$before")" "eval/windows.msgpack result.msgpack " "a window and a stride of their own: the loss of windows and the result run again, nothing else"
ok "they are the metric's identity" grep -q '"window": "32 apart, the last 32 counted, tail counted, clusters by tokens"' "$tmp/runs/tiny/eval/windows.msgpack.manifest.json"
ok "with the length" grep -q '"context": 96' "$tmp/runs/tiny/eval/windows.msgpack.manifest.json"
"$ASSAY" eval --task windows --model "$tmp/runs/tiny/pretrain" --shards "$tmp/runs/tiny/shards" --window 96 --stride 32 --out "$tmp/strided.msgpack" > "$tmp/log" 2>&1
ok "and the values those of the command line's options" cmp "$tmp/strided.msgpack" "$tmp/runs/tiny/eval/windows.msgpack"
"$ASSAY" eval --task windows --model "$tmp/runs/tiny/pretrain" --shards "$tmp/runs/tiny/shards" --window 96 --stride 48 --out "$tmp/strided.msgpack" > "$tmp/log" 2>&1
ok "another stride alone is another measure" grep -q '"window": "48 apart' "$tmp/strided.msgpack.manifest.json"
"$ASSAY" eval --task windows --config "$tmp/runs/tiny/run.ini" --model "$tmp/runs/tiny/pretrain" --shards "$tmp/runs/tiny/shards" --stride 96 --out "$tmp/other.msgpack" > "$tmp/log" 2>&1
ok "which go before the run file's" grep -q '"window": "disjoint' "$tmp/other.msgpack.manifest.json"
"$ASSAY" compare "$tmp/runs" > "$tmp/cmp" 2>&1
ok "a run with another window is not compared by it" grep -q '^  tiny-2 .*refused: context differs: 128 against 96' "$tmp/cmp"
go RUN=tiny SET="$opt" > "$tmp/log" 2>&1
go RUN=tiny SET=eval.stride=129 > "$tmp/log" 2>&1
ok "a stride beyond the window is refused before anything runs" grep -q 'eval.stride = 129 is more than model.context = 128' "$tmp/log"

# an option that is wrong is refused before anything runs
go RUN=tiny SET=train.batchsize=4 > "$tmp/log" 2>&1
ok "an unknown key is refused with the near miss" grep -q 'did you mean' "$tmp/log"
go RUN=nosuch > "$tmp/log" 2>&1
ok "an unknown run names those there are" grep -q 'there are:.*tiny' "$tmp/log"

# a result is whole or absent, also after kills at random moments; what is not volatile comes again
cat > "$tmp/stable.py" <<'PY'
import json, sys
VOLATILE = {"hardware", "software", "timing", "started", "ended", "segments"}
for line in sys.stdin:
    r = json.loads(line)
    for key in VOLATILE | {k for k in r if k.startswith("cost")}:
        r.pop(key, None)
    r.get("curve", {}).pop("seconds", None)
    print(json.dumps(r, sort_keys=True))
PY
stable() { "$ASSAY" cat "$tmp/runs/tiny/result.msgpack" | python3 "$tmp/stable.py" | sha256sum; }
want=$(stable)
ok "a result has metrics to compare" test "$("$ASSAY" cat "$tmp/runs/tiny/result.msgpack" | grep -c '"metrics":\[{')" = 1
ms() { echo $(($(date +%s%N) / 1000000)); }
start=$(ms)
rm -f "$tmp/runs/tiny/result.msgpack.manifest.json"
"$ASSAY" result --run "$tmp/runs/tiny" > /dev/null 2>&1
took=$(($(ms) - start + 1))
damage=0
times=5
[ -n "${LONG:-}" ] && times=20
for _ in $(seq $times); do
    rm -f "$tmp/runs/tiny/result.msgpack.manifest.json"
    "$ASSAY" result --run "$tmp/runs/tiny" > /dev/null 2>&1 &
    pid=$!
    wait_ms=$((RANDOM % took))
    sleep "$((wait_ms / 1000)).$(printf %03d $((wait_ms % 1000)))"
    kill -9 $pid 2> /dev/null
    wait $pid 2> /dev/null
    # whole (the old one or the new one), never cut
    "$ASSAY" cat "$tmp/runs/tiny/result.msgpack" > /dev/null 2>&1 || damage=1
    "$ASSAY" result --run "$tmp/runs/tiny" > /dev/null 2>&1 || damage=1
    [ "$(stable)" = "$want" ] || damage=1
done
is $damage 0 "kill -9 at random moments, then again: the same result, times and machine left out"
for n in 1 2; do
    rm -f "$tmp/runs/tiny/result.msgpack.manifest.json"
    { ASSAY_FAULT=kill:$n "$ASSAY" result --run "$tmp/runs/tiny" > /dev/null 2>&1; } 2> /dev/null
    ok "killed at write $n: no manifest" test ! -e "$tmp/runs/tiny/result.msgpack.manifest.json"
done
ASSAY_FAULT=write:1 "$ASSAY" result --run "$tmp/runs/tiny" > /dev/null 2> "$tmp/err"
is $? 1 "a full disk is exit 1"
is "$(wc -l < "$tmp/err")" 1 "and one sentence"
"$ASSAY" result --run "$tmp/runs/tiny" > /dev/null 2>&1
is $? 0 "result again after the kills"
is "$(stable)" "$want" "the same result"
ok "nothing temporary is left" test -z "$(find "$tmp/runs/tiny" -maxdepth 1 -name '.*tmp*')"

# A result is of one run: what was made from a training that is no longer there is left out of it.
mkdir "$tmp/mixed"
seen() { "$ASSAY" result --run "$tmp/mixed/$1" > "$tmp/log" 2>&1; echo "$?" "$("$ASSAY" cat "$tmp/mixed/$1/result.msgpack" | python3 -c '
import json, sys; r = json.loads(sys.stdin.readline())
print(len(r.get("metrics", [])), r.get("steps", 0), r["status"])')"; }
mix() { rm -rf "$tmp/mixed/q" && cp -a "$tmp/runs/tiny" "$tmp/mixed/q"; }
all=$("$ASSAY" cat "$tmp/runs/tiny/result.msgpack" | python3 -c 'import json, sys; r = json.loads(sys.stdin.readline()); print(len(r["metrics"]), r["steps"])')
mix
is "$(seen q)" "0 $all finished" "a copy of a run has all that the run has"
again() { sed -i 's/^lr = 0.003$/lr = 0.5/' "$tmp/mixed/q/run.ini"
    env "$@" "$ASSAY" train --quiet --config "$tmp/mixed/q/run.ini" --shards "$tmp/mixed/q/shards" --out "$tmp/mixed/q/pretrain" > "$tmp/log" 2>&1; }
again ASSAY_FAULT=sync:14
ok "trained again, it fails before its first checkpoint" test $? != 0 -a -d "$tmp/mixed/q/pretrain/.replaced"
gone="eval/windows, eval/documents, scores/exact-1, scores/exact-2, scores/overlap-1, scores/overlap-2"
is "$(seen q)" "0 0 0 incomplete: no pretrain, $gone" "then no figure of the old weights is its"
ok "and that is said" grep -q 'eval/windows.msgpack was made from another pretrain/latest than the one that is there' "$tmp/log"
again A=
is "$(seen q)" "0 0 ${all#* } incomplete: no $gone" "nor when it has ended"
mix
python3 -c 'import json, sys
d = json.load(open(sys.argv[1])); d["hash"] = "0" * 64; json.dump(d, open(sys.argv[1], "w"))' "$tmp/mixed/q/finetune/1/manifest.json" "$tmp"
is "$(seen q)" "0 $all finished" "a name in between that nobody took is no other run's"
python3 -c 'import json, sys
d = json.load(open(sys.argv[1])); d["hash"] = "0" * 64; json.dump(d, open(sys.argv[1], "w"))' "$tmp/mixed/q/shards/manifest.json"
is "$(seen q)" "0 0 0 incomplete: no pretrain, $gone" "other shards: the training is not of them, nor what came of it"

# nothing is written over what it was made from
cp "$tmp/runs/tiny/data/instruct_test.msgpack" "$tmp/items.msgpack"
cp "$tmp/runs/tiny/eval/responses-1.msgpack" "$tmp/answers.msgpack"
sum=$(sha256sum < "$tmp/items.msgpack")
"$ASSAY" score --scorer exact --items "$tmp/items.msgpack" --responses "$tmp/answers.msgpack" \
    --out "$tmp/items.msgpack" > "$tmp/log" 2>&1
is $? 2 "--out that is an input is refused"
is "$(sha256sum < "$tmp/items.msgpack")" "$sum" "and the input stays"
mkdir "$tmp/own" && cp "$tmp/runs/tiny/data/train.jsonl" "$tmp/own/train.jsonl"
sum=$(sha256sum < "$tmp/own/train.jsonl")
"$ASSAY" split --in "$tmp/own/train.jsonl" --holdout 0.2 --out "$tmp/own" > "$tmp/log" 2>&1
is $? 2 "--out that is the folder of an input is refused"
is "$(sha256sum < "$tmp/own/train.jsonl")" "$sum" "and the input stays there too"

cp -rL "$tmp/runs/tiny/pretrain/latest" "$tmp/ck"
sum=$(sha256sum < "$tmp/ck/model.safetensors")
"$ASSAY" eval --task windows --model "$tmp/ck" --shards "$tmp/runs/tiny/shards" --out "$tmp/ck/model.safetensors" > "$tmp/log" 2>&1
is $? 2 "--out inside an input folder is refused"
is "$(sha256sum < "$tmp/ck/model.safetensors")" "$sum" "and the checkpoint stays"
"$ASSAY" corpus --out "$tmp/runs/tiny/data" --docs 10 > "$tmp/log" 2>&1
is $? 2 "a folder that another command made is refused"
ok "and the refusal says which" grep -q 'what `assay split` made' "$tmp/log"
( # two writers of one folder: one does it, the other is told
    exec 9< "$tmp/runs/tiny/shards" && flock 9
    "$ASSAY" shard --vocab "$tmp/runs/tiny/vocab.tiktoken" --in "$tmp/own/train.jsonl" --holdout 0.5 --out "$tmp/runs/tiny/shards" > "$tmp/log" 2>&1
)
is $? 1 "a second writer of a folder is refused"
ok "in a sentence" grep -q 'another process is writing it' "$tmp/log"

# A run's folder is deleted, or the runs are elsewhere: the run file is resolved again.
set_to="eval.max_new_tokens=5 finetune.lr=2e-3"
rm -rf "$tmp/runs/tiny-2"
go RUN=tiny-2 SET="$set_to" > "$tmp/log" 2>&1
is "$? $(test -s "$tmp/runs/tiny-2/result.msgpack" && echo there)" "0 there" "a run whose folder was deleted is made again" || sed 's/^/# /' "$tmp/log" | tail -5
go RUN=tiny SET="$set_to" RUNS_DIR="$tmp/elsewhere" > "$tmp/log" 2>&1
is "$? $(test -s "$tmp/elsewhere/tiny/result.msgpack" && echo there)" "0 there" "and one under another RUNS_DIR from its start" || sed 's/^/# /' "$tmp/log" | tail -5
before=$(sums)
go RUN=tiny SET="$set_to" > "$tmp/log" 2>&1
is "$(changed "$before")" "" "back under the first one no stage runs"

# What cannot train here says so first: nothing is made. A run that has trained is not asked.
go RUN=tiny RUNS_DIR="$tmp/never" HARDWARE=abacus > "$tmp/log" 2>&1
is "$? $(grep -c 'no hardware file .*abacus.ini; HARDWARE is one of: .*8xa100-40' "$tmp/log")" "2 1" "a HARDWARE that is not there is named, with those that are"
go RUN=tiny RUNS_DIR="$tmp/never" SET="train.precision=fp16 train.backend=cpu" > "$tmp/log" 2>&1
is "$? $(grep -c 'precision fp16: the cpu backend computes in' "$tmp/log")" "2 1" "a precision that does not compute here is said"
make demo DEPS=0 BUILD="$BUILD" RUNS_DIR="$tmp/never" SET="train.precision=fp16 train.backend=cpu" > "$tmp/log" 2>&1
is "$? $(grep -c 'precision fp16: the cpu backend computes in' "$tmp/log")" "2 1" "the demo says so too"
is "$(ls "$tmp/never" 2>/dev/null)" "" "before anything is made"
"$ASSAY" doctor --config "$tmp/files/tiny.ini" > "$tmp/log" 2>&1
is "$? $(grep -c 'trains on [a-z]* in fp32' "$tmp/log")" "0 1" "doctor --config says what a run would train on"
go RUN=tiny RUNS_DIR="$tmp/never" SET="model.layers=900 model.width=65536 model.heads=512" > "$tmp/log" 2>&1
is "$? $(grep -c 'never/tiny has [0-9.]* [A-Z]iB free, the run needs [0-9.]* TiB there for its checkpoints (1 of [0-9.]* TiB at once, train.keep = 2) and fine-tuned weights (' "$tmp/log")" "2 1" "a disk that cannot hold the checkpoints is said" || tail -3 "$tmp/log" | sed 's/^/# /'
is "$(ls "$tmp/never" 2>/dev/null)" "" "before anything is made"
"$ASSAY" doctor --config pipelines/runs/gpt2-163m.ini --set eval.tasks= --set train.backend=cpu --set train.precision=fp32 --set finetune.precision=fp32 --set train.keep=900000 --set train.checkpoint_every=1 --data "$tmp/nodata" --dir "$tmp" > "$tmp/log" 2>&1
is "$? $(grep -c 'for its sources (6.3 GiB) and its checkpoints (30614 of 1.8 GiB at once' "$tmp/log")" "1 1" "with what is to be fetched: 34 files of 1e8 tokens" || sed 's/^/# /' "$tmp/log"
# What is there already needs no room: a run that was cut goes on where a fresh one would not fit.
if mkdir "$tmp/small" && mount -t tmpfs -o size=8m none "$tmp/small" 2>/dev/null; then
    trap 'umount "$tmp/small"; rm -rf "$tmp"' EXIT
    set_to="train.checkpoint_every=5"
    go RUN=tiny RUNS_DIR="$tmp/small" SET="$set_to train.max_hours=1e-9" > "$tmp/log" 2>&1
    one=$(cat "$tmp"/small/tiny/pretrain/step-00000001/* | wc -c)
    room=$(df --output=avail -B1 "$tmp/small" | tail -1)
    head -c $((room - 5 * one / 2)) /dev/zero > "$tmp/small/full"
    go RUN=tiny-2 RUNS_DIR="$tmp/small" SET="$set_to" > "$tmp/log" 2>&1
    is "$? $(grep -c 'small/tiny-2 has [0-9.]* KiB free, the run needs [0-9.]* [KM]iB there for its checkpoints (3 of [0-9]* KiB at once, train.keep = 2)' "$tmp/log")" "2 1" "a fresh one is refused there" || tail -3 "$tmp/log" | sed 's/^/# /'
    go RUN=tiny RUNS_DIR="$tmp/small" SET="$set_to" > "$tmp/log" 2>&1
    ok "a run that was cut goes on in the room that it has" test -e "$tmp/small/tiny/pretrain/manifest.json" || tail -3 "$tmp/log" | sed 's/^/# /'
    umount "$tmp/small"
    trap 'rm -rf "$tmp"' EXIT
else
    ok "# SKIP cannot mount a small tmpfs here" true
fi
mkdir "$tmp/libs"
ASSAY_LIBDIR=$tmp/libs "$ASSAY" doctor > "$tmp/log" 2>&1
is "$(grep -cE '^(nccl|nvml) +(/|.*no lib.* where the loader looks)|^mpi .*was not built' "$tmp/log")" 3 "doctor says of NCCL, NVML and MPI whether they are here" || sed 's/^/# /' "$tmp/log"

# the run files for real work: make -n says what would be done, with and without DATA
for f in pipelines/runs/*.ini; do
    name=$(basename "$f" .ini)
    make -n run RUN="$name" DEPS=0 BUILD="$BUILD" RUNS_DIR="$tmp/none" DATA="$tmp/nodata" > "$tmp/log" 2>&1
    is $? 0 "make -n run RUN=$name" || sed 's/^/# /' "$tmp/log" | tail -5
    ok "$name: it ends in a result" grep -q 'result --run' "$tmp/log"
done
# what a run fetches has a folder of its own where nobody says DATA
for name in gpt2-124m gpt2-163m shakespeare; do
    make -n run RUN="$name" DEPS=0 BUILD="$BUILD" RUNS_DIR="$tmp/none" DATA= > "$tmp/log" 2>&1
    is "$(grep -c 'say where with' "$tmp/log") $(grep -cE 'assay fetch [a-zA-Z0-9-]+ --out ' "$tmp/log")" "0 $(grep -cE 'assay fetch [a-zA-Z0-9-]+ --out data/' "$tmp/log")" "$name fetches into data/ and asks for no DATA"
    ok "$name does fetch" grep -q 'assay fetch' "$tmp/log"
done
make run RUN=novels DEPS=0 BUILD="$BUILD" RUNS_DIR="$tmp/none" DATA= > "$tmp/log" 2>&1
ok "a run without its data says so in one sentence" grep -q 'say where with DATA=folder' "$tmp/log"
done_testing
