#!/usr/bin/env bash
# The CUDA backend where there is no GPU: the conformance suite of tests/ops on the emulated device
# with several schedules, streams as late as they may be, the ways products can be taken; and the tool
# itself with that backend, loaded as the real one is. Compiled and emulated, not run on a GPU.
set -u
. tests/cli/tap.sh
. tests/cli/chain.sh
so=$BUILD/cudaemu/libassay_cuda.so
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ ! -f "$so" ]; then
    skip "NVIDIA's headers (cuda_runtime.h, cublasLt.h)"
    done_testing
fi
export ASSAY_LIBDIR=$BUILD/cudaemu

# suite NAME VAR=VALUE...: every check of a suite passes on cuda, and there are as many as on the CPU.
suite() {
    local name=$1 label="$*"
    shift
    env ASSAY_BACKEND=cuda "$@" "$BUILD/tests/ops/$name" >"$tmp/out" 2>"$tmp/err"
    local rc=$?
    [ $rc = 0 ] && tail -1 "$tmp/out" | grep -q '^1\.\.[1-9]' && ! grep -q '^not ok' "$tmp/out"
    result $? "conformance on cuda(emulated): $label: $(grep -c '^ok' "$tmp/out") checks" ||
        { grep -A2 '^not ok' "$tmp/out" | head -20; head -5 "$tmp/err" | sed 's/^/# /'; }
}
suite test_ops CUEMU_SEED=0 ASSAY_CUDA_TUNE=fused
suite test_ops CUEMU_SEED=1 ASSAY_CUDA_TUNE=separate
suite test_ops CUEMU_SEED=7 CUEMU_LAZY=1
suite test_ops CUEMU_SEED=0 ASSAY_CUDA_TUNE=own
suite test_contract CUEMU_SEED=0 CUEMU_GUARD=1
suite test_contract CUEMU_SEED=1
suite test_grad CUEMU_SEED=7
suite test_padding CUEMU_SEED=0
suite test_comm CUEMU_DEVICES=3 CUEMU_LAZY=1
suite test_comm CUEMU_DEVICES=3

"$ASSAY" doctor >"$tmp/doctor" 2>&1
ok "doctor names the device and says that it is emulated" grep -q 'emulated device 0' "$tmp/doctor"
mkdir "$tmp/cut"
bad=0
for n in 100 4096 100000 $(($(stat -c %s "$ASSAY_LIBDIR/libassay_cuda.so") - 1)); do
    head -c "$n" "$ASSAY_LIBDIR/libassay_cuda.so" >"$tmp/cut/libassay_cuda.so"
    ASSAY_LIBDIR=$tmp/cut "$ASSAY" doctor >"$tmp/doctor" 2>&1 && grep -q "^cuda .*is cut off: $n bytes are there" "$tmp/doctor" || bad=$n
done
is $bad 0 "an object that was cut off in the copying is named, wherever it was cut"
CUEMU_DRIVER=12020 "$ASSAY" doctor >"$tmp/doctor" 2>&1
ok "a driver too old: doctor says which it needs" grep -q 'the driver knows CUDA 12.2, this build needs' "$tmp/doctor"
CUEMU_NO_CODE=1 "$ASSAY" doctor >"$tmp/doctor" 2>&1
ok "a card that the build has no code for: doctor says what to do" \
    grep -q "^cuda .*compute capability 8.0, and this build's code does not run on it (no kernel image.*ARCH=native" "$tmp/doctor"

# The tool itself: a run on cuda and on cpu from one file; losses agree, and so does decoding.
export ASSAY_CUDA_TUNE=separate # no choice by measurement, so that runs repeat
chain_shards "$tmp/shards" 3000 300
cat >"$tmp/run.ini" <<END
[model]
layers = 2
heads = 2
width = 32
context = 32
vocab = 61
dropout = 0.1
[train]
tokens = 1024
batch = 4
lr = 1e-2
checkpoint_every = 4
END
train() { # backend, folder, options
    local backend=$1 out=$2
    shift 2
    "$ASSAY" train --quiet --config "$tmp/run.ini" --shards "$tmp/shards" --out "$tmp/$out" --set "train.backend=$backend" "$@" \
        >"$tmp/out" 2>&1 || { sed 's/^/# /' "$tmp/out"; return 1; }
}
wide() { "$ASSAY" train --quiet --config "$tmp/run.ini" --shards "$1" --out "$tmp/wide" --set model.width=512 --set model.heads=1 --set "train.backend=$2" 2>"$tmp/err"; }
wide "$tmp/none" cuda
is "$? $(grep -c 'heads of 512, on cuda there may be 256; take more heads' "$tmp/err") $(ls -d "$tmp/wide" 2>/dev/null)" "2 1 " "heads that no kernel takes are refused before the shards are read" || cat "$tmp/err"
"$ASSAY" doctor --config "$tmp/run.ini" --set model.width=512 --set model.heads=1 --set train.backend=auto >"$tmp/doctor" 2>&1
is "$? $(grep -c 'heads of 512, on cuda there may be 256' "$tmp/doctor")" "2 1" "doctor refuses them too" || cat "$tmp/doctor"
wide "$tmp/shards" auto
is "$? $(grep -c 'heads of 512, on cuda there may be 256; take more heads' "$tmp/err") $(ls -A "$tmp/wide" 2>/dev/null)" "2 1 " "with auto before anything is computed" || cat "$tmp/err"
ASSAY_CUDA_TUNE=foo train cuda typo >/dev/null
ok "a way of products that is not there is refused by name" grep -q 'ASSAY_CUDA_TUNE = foo: fused, separate or own' "$tmp/out"
losses() { grep -o '"loss": *[0-9.]*' "$tmp/$1/metrics.jsonl" | grep -o '[0-9.]*$'; }
ok "assay train on cuda(emulated)" train cuda straight
ok "and on the CPU" train cpu cpu
agree() {
    paste <(losses "$1") <(losses "$2") |
        perl -ne '@v = split; die "$_" unless @v == 2 && abs($v[0] / $v[1] - 1) < 1e-4; $n++; END { exit !($n && $n >= 4) }'
}
ok "losses of all steps agree" agree straight cpu
is "$(losses straight | wc -l)" "$(losses cpu | wc -l)" "as many steps"
CUEMU_SEED=7 train cuda again
ok "another order of threads gives the same weights, bit by bit" \
    cmp "$tmp/straight/latest/model.safetensors" "$tmp/again/latest/model.safetensors"
# What the management library says of the device goes into the journal, the manifest and the result.
volatile() { python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))["volatile"].get(sys.argv[2], "missing")))' "$tmp/$1/manifest.json" "$2"; }
is "$(volatile straight energy_j), $(volatile straight mfu)" "null, null" "without NVML energy is unknown, and the share of an unknown device's peak"
ok "the runtime still knows the memory" [ "$(volatile straight memory_most)" != null ]
ok "the device is named" [ "$(volatile straight device)" = '"emulated device 0"' ]
LD_LIBRARY_PATH=$BUILD/cudaemu/nvml CUEMU_NAME="NVIDIA H200" CUEMU_NVML_MEMORY=5000000 CUEMU_NVML_POWER=250500 \
    CUEMU_NVML_ENERGY=1000 train cuda nvml --set train.precision=bf16 # the table's peaks are of that
# The device is asked at the first and the last step, and once a second between them: a slow machine has more.
asked=$(grep -c '"memory":5000000,"power_w":250.5,"energy_j":[1-9]' "$tmp/nvml/metrics.jsonl")
ok "the first and the last step carry memory, power and energy" [ "$asked" -ge 2 ]
ok "energy is the counter's: a joule a question, of which the first is the start" \
    [ "$(volatile nvml energy_j) $(volatile nvml energy_from)" = "$((asked + 2)).0 \"the device's counter\"" ] ||
    echo "# $(volatile nvml energy_j) $(volatile nvml energy_from), $asked rows"
ok "the share of the stated peak: $(volatile nvml peak_from)" [ "$(volatile nvml peak_tflops)" = 989.0 ]
ok "the driver is named" [ "$(volatile nvml driver)" = '"999.1"' ]
LD_LIBRARY_PATH=$BUILD/cudaemu/nvml CUEMU_NVML_POWER=250500 train cuda half
ok "a card without a counter: power over time, and that is said" [ "$(volatile half energy_from)" = '"power over time"' ]
LD_LIBRARY_PATH=$BUILD/cudaemu/nvml train cuda deaf
silent=$(grep -c '"power_w":null,"energy_j":null' "$tmp/deaf/metrics.jsonl")
is "$([ "$silent" -ge 2 ] && grep -c '"power_w":[0-9]\|"energy_j":[0-9]' "$tmp/deaf/metrics.jsonl") $(volatile deaf energy_j)" "0 null" "what the card does not support is null, not 0"
LD_LIBRARY_PATH=$BUILD/cudaemu/nvml CUEMU_NVML_FAIL=1 train cuda failing
is "$(volatile failing energy_j)" null "a library that does not start is as good as none"
LD_LIBRARY_PATH=$BUILD/cudaemu/nvml CUEMU_MEMORY=4000000000 CUEMU_NVML_MEMORY=5000000 CUEMU_NVML_POWER=250500 train cuda slice
ok "a slice of a card: the memory is the slice's, the power of the whole is not taken" \
    [ "$(volatile slice energy_j) $(($(volatile slice memory_most | cut -d. -f1) < 4000000000)) $(grep -c '"memory":5000000' "$tmp/slice/metrics.jsonl")" = "null 1 0" ]
prompt() { "$ASSAY" sample --model "$tmp/straight/latest" --backend "$1" --prompt-ids 1,2,3 --ids --max-new-tokens 8 --temperature 0 2>"$tmp/err"; }
cuda=$(prompt cuda)
ok "a checkpoint continues a prompt with the KV cache on cuda" [ -n "$cuda" ] || sed 's/^/# /' "$tmp/err"
is "$cuda" "$(prompt cpu)" "as on the CPU"
done_testing
