#!/usr/bin/env bash
# train.precision, recompute and stochastic_rounding through the tool, on the emulated CUDA device: a
# run that is cut goes on with the same bits, a loss scale that grows too far is counted, and the CPU
# says what it has.
set -u
. tests/cli/tap.sh
. tests/cli/chain.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
chain_shards "$tmp/shards" 3000 300
cat >"$tmp/run.ini" <<END
[model]
layers = 2
heads = 1
width = 64
context = 32
vocab = 61
tied = false
dropout = 0.1
[train]
tokens = 1536
batch = 4
micro_batch = auto
lr = 1e-2
checkpoint_every = 5
keep = 9
val_every = 6
END
train() { # backend, folder, options
    local backend=$1 out=$2
    shift 2
    "$ASSAY" train --quiet --config "$tmp/run.ini" --shards "$tmp/shards" --out "$tmp/$out" \
        --set "train.backend=$backend" "$@" >"$tmp/log" 2>&1
}
for p in tf32 bf16 fp16; do
    train cpu refused --set train.precision=$p
    is "$?" 2 "the CPU refuses $p"
    ok "and says what it has" grep -q "precision $p: the cpu backend computes in fp32 only" "$tmp/log"
done
# Nobody chose the CPU: why the other backend did not open is in the sentence.
ASSAY_LIBDIR=$tmp train auto refused --set train.precision=fp16
is "$?" 2 "auto without a GPU refuses fp16"
ok "and says why cuda did not open" grep -q 'computes in fp32 only; others: cuda (.*libassay_cuda.so.*)' "$tmp/log"
train cpu refused --set train.stochastic_rounding=true
is "$?" 2 "stochastic rounding of fp32 is refused"
ok "auto is the micro-batch that fits" train cpu cpu
if [ ! -f "$BUILD/cudaemu/libassay_cuda.so" ]; then
    skip "NVIDIA's headers (cuda_runtime.h, cublasLt.h)"
    done_testing
fi
export ASSAY_LIBDIR=$BUILD/cudaemu ASSAY_CUDA_TUNE=separate

# At 128 tokens a step the first gradient is 2^k / 128: beyond 65504 from k = 23 on. The scale that
# doubles behind each good step gets there in the eighth.
fp16="--set train.precision=fp16 --set train.loss_scale_every=1 --set train.recompute=layer --set train.stochastic_rounding=true"
ok "fp16 with a growing scale, recomputation and stochastic rounding trains" train cuda straight $fp16 ||
    sed 's/^/# /' "$tmp/log"
is "$(grep -c '"overflow":true' "$tmp/straight/metrics.jsonl" | sed 's/^[1-9].*/some/')" some "steps overflowed"
is "$(grep -o '"overflows": *[0-9]*' "$tmp/straight/manifest.json" | grep -o '[0-9]*$')" \
    "$(grep -c '"overflow":true' "$tmp/straight/metrics.jsonl")" "the manifest counts them"
is "$(grep -o '"skipped": *[0-9]*' "$tmp/straight/manifest.json" | grep -o '[0-9]*$')" 0 "they are no spikes"
is "$(head -1 "$tmp/straight/metrics.jsonl" | grep -o '"loss_scale":[0-9]*')" '"loss_scale":65536' "the scale starts at 2^16"
cp -r "$tmp/straight" "$tmp/cut"
rm -rf "$tmp/cut/manifest.json" "$tmp"/cut/step-00000012 "$tmp/cut/step-00000010"
ok "cut behind step 5, it goes on" train cuda cut $fp16 --resume || sed 's/^/# /' "$tmp/log"
for f in model.safetensors optimizer.safetensors; do
    ok "with the same bytes: $f" cmp "$tmp/straight/step-00000012/$f" "$tmp/cut/step-00000012/$f"
done
is "$(grep -o '"loss_scale":[0-9]*' "$tmp/cut/metrics.jsonl" | tr '\n' ' ')" \
    "$(grep -o '"loss_scale":[0-9]*' "$tmp/straight/metrics.jsonl" | tr '\n' ' ')" "and the same scales"
train cuda cut --resume --set train.precision=bf16
ok "another precision is another run" grep -q 'precision' "$tmp/log"

ok "bf16 trains" train cuda bf16 --set train.precision=bf16
agree() {
    paste <(grep -o "\"$1\": *[0-9.]*" "$tmp/cpu/metrics.jsonl") <(grep -o "\"$1\": *[0-9.]*" "$tmp/bf16/metrics.jsonl") |
        perl -ne '@v = /:\s*([0-9.]+)/g; die $_ unless @v == 2 && abs($v[0] / $v[1] - 1) < 1e-2; $n++; END { exit !($n && $n >= 2) }'
}
ok "its losses are those of the CPU" agree loss
ok "and its validation's" agree val_loss
prompt() { "$ASSAY" sample --model "$tmp/bf16/latest" --backend "$1" --prompt-ids 1,2,3 --ids --max-new-tokens 8 --temperature 0 2>"$tmp/err"; }
is "$(prompt cuda)" "$(prompt cpu)" "its checkpoint is like any other"
prompt_bf16() { "$ASSAY" sample --model "$tmp/bf16/latest" --backend cuda --precision bf16 --prompt-ids 1,2,3 --ids --max-new-tokens 8 --temperature 0 2>"$tmp/err"; }
is "$(prompt_bf16)" "$(prompt cpu)" "it continues a prompt in bf16 as well" || sed 's/^/# /' "$tmp/err"
loss() { "$ASSAY" eval --task windows --model "$tmp/bf16/latest" --shards "$tmp/shards" --out "$tmp/e-$1-$2" --backend "$1" --precision "$2" >"$tmp/log" 2>&1 || sed 's/^/# /' "$tmp/log"; }
loss cuda bf16 && loss cpu fp32
nats() { grep -o '"nats": [0-9.]*' "$tmp/e-$1.manifest.json" | head -1 | grep -o '[0-9.]*$'; }
ok "and its loss is near that in fp32, not equal" awk -v a="$(nats cuda-bf16)" -v b="$(nats cpu-fp32)" 'BEGIN { d = a / b - 1; exit !(d != 0 && d < 2e-3 && d > -2e-3) }'
is "$(tr -d '\n' <"$tmp/e-cuda-bf16.manifest.json" | grep -o '"identity": {[^}]*}' | grep -o '"precision": "[a-z0-9]*"')" '"precision": "bf16"' "its identity names the precision"
"$ASSAY" eval --task windows --model "$tmp/bf16/latest" --shards "$tmp/shards" --out "$tmp/e-x" --backend cpu --precision fp16 >"$tmp/log" 2>&1
is $? 2 "evaluating in fp16 on the CPU is refused"
ok "in a sentence" grep -q 'precision fp16: the cpu backend computes in fp32 only' "$tmp/log"
is "$(ls -l "$tmp/bf16/latest/" | awk '/model.safetensors/{print $5}')" "$(ls -l "$tmp/cpu/latest/" | awk '/model.safetensors/{print $5}')" \
    "without the padding of its head"
done_testing
