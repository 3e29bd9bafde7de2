#!/usr/bin/env bash
# A run whose weights are no good any more: fp16 stops at the first loss that is no number, as bf16 does,
# since no scale of the gradients cures a forward pass; the checkpoint it names is one whose weights were good.
set -u
. tests/cli/tap.sh
. tests/cli/chain.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ ! -f "$BUILD/cudaemu/libassay_cuda.so" ]; then
    skip "NVIDIA's headers (cuda_runtime.h, cublasLt.h)"
    done_testing
fi
case $BUILD in /*) lib=$BUILD/cudaemu ;; *) lib=$PWD/$BUILD/cudaemu ;; esac
export ASSAY_LIBDIR=$lib ASSAY_CUDA_TUNE=separate OMP_NUM_THREADS=1
chain_shards "$tmp/shards" 9000 900
cat >"$tmp/run.ini" <<EOT
[model]
layers = 3
heads = 1
width = 64
context = 32
vocab = 61
[train]
tokens = 3840
batch = 4
lr = 10
clip = 0
warmup = 0
checkpoint_every = 1
keep = 9
backend = cuda
EOT
train() { local out=$1; shift; "$ASSAY" train --quiet --config "$tmp/run.ini" --shards "$tmp/shards" --out "$tmp/$out" "$@" 2>"$tmp/err"; }
train fp16 --set train.precision=fp16
is $? 1 "a rate far too high fails"
cp "$tmp/err" "$tmp/fp16.err"
has "$tmp/err" "^train: step [0-9]*: the loss is \(nan\|inf\) " "in the step whose loss is none"
[ ! -e "$tmp/fp16/manifest.json" ]
result $? "without a manifest"
n=$(sed -n 's/^train: step \([0-9]*\):.*/\1/p' "$tmp/err")
is "$(wc -l <"$tmp/fp16/metrics.jsonl")" "$((n - 1))" "and no step is counted behind it"
is "$(grep -c '"overflow":true.*"loss":null\|"loss":null' "$tmp/fp16/metrics.jsonl")" 0 "no step without a loss was left out as an overflow"
newest=$(printf 'step-%08d' $((n - 1)))
has "$tmp/fp16.err" "the weights of [^ ]*$newest are no good already" "the checkpoint that these weights are in is called bad"
train fp16 --set train.precision=fp16
has "$tmp/err" "the weights of [^ ]*$newest are no good already" "also when it goes on from there"

# Steps that are skipped and counted do not make a run that ends among them a good one.
train skips --set train.precision=fp16 --set train.spike_z=5 --set train.max_skips=1000
is $? 1 "a run whose last step has no loss fails"
has "$tmp/err" "step 30, the last: the loss is \(nan\|inf\)" "and says so"
[ ! -e "$tmp/skips/manifest.json" ]
result $? "without a manifest"
done_testing
