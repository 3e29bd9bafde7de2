#!/usr/bin/env bash
# make run RUN=gpt2-163m HARDWARE=8xa100-40, the whole chain of the run file that people rent machines
# for, on two emulated devices: its own precision, schedule and decay; data made here in place of what it
# fetches, a small model, three steps. The backend is loaded as the real one is.
set -u
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ ! -f "$BUILD/cudaemu/libassay_cuda.so" ]; then
    skip "NVIDIA's headers (cuda_runtime.h, cublasLt.h)"
    done_testing
fi
case $BUILD in /*) lib=$BUILD/cudaemu ;; *) lib=$PWD/$BUILD/cudaemu ;; esac
export ASSAY_LIBDIR=$lib CUEMU_DEVICES=2 CUEMU_NAME="NVIDIA A100-SXM4-40GB" ASSAY_CUDA_TUNE=separate OMP_NUM_THREADS=1
{ "$ASSAY" corpus --out "$tmp/c" --docs 400 --seed 1 &&
    "$ASSAY" vocab train --in "$tmp/c/docs.jsonl" --size 400 --out "$tmp/v.tiktoken" &&
    "$ASSAY" shard --vocab "$tmp/v.tiktoken" --in "$tmp/c/docs.jsonl" --out "$tmp/shards" --holdout 0.3; } >"$tmp/log" 2>&1 ||
    sed 's/^/# /' "$tmp/log"
python3 - "$tmp" <<'PY'
import json, sys
items = json.load(open(sys.argv[1] + "/c/instruct.json"))
items.sort(key=lambda i: len(json.dumps(i)))
json.dump(items[:30], open(sys.argv[1] + "/instruct.json", "w"))
PY
small="model.layers=2 model.heads=2 model.width=32 model.context=128 model.vocab=400 train.batch=4 train.tokens=1536 train.checkpoint_every=2 eval.start=0 eval.tokens=512 eval.max_new_tokens=2 finetune.epochs=1 finetune.seeds=1"
go() {
    make run DEPS=0 BUILD="$BUILD" RUNS_DIR="$tmp/runs" RUN=gpt2-163m HARDWARE=8xa100-40 \
        SET="data.shards=$tmp/shards data.instruct=$tmp/instruct.json vocab.from=$tmp/v.tiktoken train.backend=cuda $small" >"$tmp/log" 2>&1
}
# The line itself: what it fetches, where, and nothing that anybody would have to say first.
env -u DATA make -n run RUN=gpt2-163m HARDWARE=8xa100-40 DEPS=0 BUILD="$BUILD" RUNS_DIR="$tmp/line" >"$tmp/log" 2>&1
is "$? $(grep -oE 'fetch .*' "$tmp/log" | sort | tr '\n' ';')" "0 fetch fineweb10B-gpt2 --out data/fineweb10B-gpt2 --files 34;fetch gpt2 --out data/gpt2;fetch instruction-data --out data/instruction-data.json;" "make run RUN=gpt2-163m HARDWARE=8xa100-40 fetches all that it needs"
is "$(grep -c DATA= "$tmp/log") $(grep -oE 'assay (train|finetune|result) ' "$tmp/log" | tr -s '\n ' ' ')" "0 assay train assay finetune assay finetune assay finetune assay result " "and asks for no DATA"
go
if ! is $? 0 "make run RUN=gpt2-163m HARDWARE=8xa100-40: from shards to its result"; then
    tail -20 "$tmp/log" | sed 's/^/# /'
    done_testing
fi
run=$tmp/runs/gpt2-163m
field() { "$ASSAY" cat "$run/result.msgpack" | python3 -c '
import json, sys
v = json.loads(sys.stdin.readline())
for k in sys.argv[1].split("."): v = v[int(k)] if isinstance(v, list) else v.get(k)
print(v)' "$1"; }
manifest() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print({**d.get("facts", {}), **d.get("volatile", {})}.get(sys.argv[2]))' "$run/$1" "$2"; }
is "$(manifest pretrain/manifest.json ranks) $(manifest pretrain/manifest.json comm)" "2 nccl" "it trained on both devices, through NCCL"
is "$(manifest finetune/42/manifest.json ranks) $(manifest finetune/42/manifest.json comm) $(field config.finetune.precision)" "2 nccl fp16" "it was fine-tuned on both as well, in the run file's precision"
is "$(field steps) $(field config.train.precision) $(field config.train.schedule) $(field config.train.decay)" "3 fp16 constant all" "three steps, with the run file's precision, schedule and decay"
ok "on the emulated backend: $(field software.backend)" grep -q "^NVIDIA A100-SXM4-40GB, CUDA" <<<"$(field software.backend)"
is "$(field hardware.name) $(field hardware.devices) $(field hardware.price_hour)" "8xa100-40 8 10.32" "the result names the machine and its price"
ok "and what the training cost: $(field cost_train) USD" awk -v c="$(field cost_train)" 'BEGIN { exit !(c > 0) }'
ok "MFU by the hardware file's peak: $(field timing.mfu)" awk -v m="$(field timing.mfu)" 'BEGIN { exit !(m > 0 && m < 0.01) }'
is "$(field timing.energy_j)" None "energy is unknown, not 0"
ok "the share of waiting for other ranks: $(field timing.comm_share)" awk -v m="$(field timing.comm_share)" 'BEGIN { exit !(m > 0 && m < 1) }'
cp "$tmp/log" "$tmp/first"
ok "the test loss was spread over both" grep -q "eval: 2 ranks, 2 of them on" "$tmp/first"
names() { "$ASSAY" cat "$run/result.msgpack" | python3 -c 'import json, sys; print(" ".join(sorted(m["name"] for m in json.loads(sys.stdin.readline())["metrics"])))'; }
is "$(names)" "acc_exact f1_overlap nll_token" "the result has the loss and the answers' scores"
before=$(sha256sum "$run/pretrain/manifest.json")
go
is "$? $(sha256sum "$run/pretrain/manifest.json")" "0 $before" "again: nothing trains"
done_testing
