#!/usr/bin/env bash
# Whose peak and price a run takes: two ranks on a machine of eight, a hardware file of another card, in
# training, result and plan. On emulated devices that give themselves the name of a card.
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
export ASSAY_LIBDIR=$lib CUEMU_DEVICES=2 ASSAY_CUDA_TUNE=separate OMP_NUM_THREADS=1
chain_shards "$tmp/shards" 9000 900
file=$PWD/pipelines/hardware/8xa100-40.ini
go() { # run's name, card
    mkdir -p "$tmp/rr/$1"
    cat >"$tmp/rr/$1/run.ini" <<EOT
[data]
kind = shards
shards = $tmp/shards
[model]
layers = 1
heads = 2
width = 64
context = 32
vocab = 61
[train]
tokens = 1024
batch = 4
precision = bf16
backend = cuda
[eval]
tasks =
EOT
    CUEMU_NAME=$2 "$ASSAY" train --quiet --config "$tmp/rr/$1/run.ini" --shards "$tmp/shards" \
        --out "$tmp/rr/$1/pretrain" --hardware "$file" --ranks 2 2>"$tmp/err" &&
        "$ASSAY" result --quiet --run "$tmp/rr/$1" --hardware "$file" --out "$tmp/rr/$1/result.msgpack" 2>"$tmp/err2"
}
field() { "$ASSAY" cat "$tmp/rr/$1/result.msgpack" | python3 -c '
import json, sys
v = json.loads(sys.stdin.readline())
for k in sys.argv[1].split("."): v = v[int(k)] if isinstance(v, list) else v.get(k)
print(v)' "$2"; }
fact() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["volatile"][sys.argv[2]])' "$tmp/rr/$1/pretrain/manifest.json" "$2"; }

go right "NVIDIA A100-SXM4-40GB"
is $? 0 "two ranks, and a file of eight of their card" || sed 's/^/# /' "$tmp/err" "$tmp/err2"
is "$(fact right peak_from)" "hardware file 8xa100-40: 2 x 312 TFLOP/s" "the peak is that of two devices"
is "$(field right hardware.ranks) $(field right hardware.used) $(field right hardware.devices) $(field right hardware.price_hour)" "2 2 8 10.32" \
    "the result knows two ranks on two of eight devices, and the price of all"
cat "$tmp/err" "$tmp/err2" >"$tmp/both"
is "$(grep -c "is of A100" "$tmp/both")" 0 "and nothing is warned of"
# One device's rate is half of the run's: on all eight it is four times as fast.
"$ASSAY" plan --config "$tmp/rr/right/run.ini" --hardware "$file" --results "$tmp/rr/right" >"$tmp/plan" 2>&1
"$ASSAY" plan --config "$tmp/rr/right/run.ini" --hardware "$file" --results "$tmp/rr/right" --set train.ranks=2 >"$tmp/plan2" 2>&1
rate() { sed -n 's/^time .* at \([0-9]*\) tokens.*/\1/p' "$1"; }
mean=$(field right timing.tokens_per_second)
ok "a plan of eight by it is four times as fast: $(rate "$tmp/plan") and $mean" awk -v a="$(rate "$tmp/plan")" -v b="$mean" 'BEGIN { exit !(a / b > 3.9 && a / b < 4.1) }'
ok "of two as fast: $(rate "$tmp/plan2")" awk -v a="$(rate "$tmp/plan2")" -v b="$mean" 'BEGIN { exit !(a / b > 0.97 && a / b < 1.03) }'
has "$tmp/plan2" "^money .* at 10.32 an hour for the whole machine" "and pays the whole machine"

go wrong "NVIDIA GeForce RTX 3090"
is $? 0 "a file of another card" || sed 's/^/# /' "$tmp/err" "$tmp/err2"
has "$tmp/err" "8xa100-40 is of A100 40GB SXM4 (driver_name = .*), this run is on NVIDIA GeForce RTX 3090: no peak, no price" "train names both"
has "$tmp/err2" "8xa100-40 is of A100 40GB SXM4 .*, the run was on NVIDIA GeForce RTX 3090" "so does result"
is "$(fact wrong peak_from)" "table of devices, NVIDIA GeForce RTX 3090: 2 x 71 TFLOP/s" "the peak is the card's own"
is "$(field wrong hardware.price_hour) $(field wrong cost_train) $(field wrong hardware.ranks)" "None None 2" "and there is no price and no cost"

# Before anything is fetched: how many of the file's devices are here.
ask() { "$ASSAY" doctor --config "$tmp/rr/right/run.ini" --hardware "$file" --dir "$tmp" "$@" >"$tmp/out" 2>"$tmp/err"; }
CUEMU_DEVICES=1 ask
is "$? $(grep -c '8xa100-40 has 8 devices, here are 1: the training takes 1, its price is of the whole machine' "$tmp/err")" "0 1" "fewer devices than are paid are warned of" || sed 's/^/# /' "$tmp/err"
CUEMU_DEVICES=8 ask
is "$? $(cat "$tmp/err")" "0 " "as many are not"
ask --set train.ranks=4
is "$? $(head -1 "$tmp/err")" "2 doctor: train.ranks = 4, but here are 2 devices" "more ranks than devices are refused"
done_testing
