#!/usr/bin/env bash
# The CUDA backend on the emulator under AddressSanitizer and UBSan: conformance suites, narrow types,
# collectives, a training run on two devices. Built in its own folder, as make asan does.
set -u
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ ! -f "$BUILD/cudaemu/libassay_cuda.so" ]; then
    skip "NVIDIA's headers (cuda_runtime.h, cublasLt.h)"
    done_testing
fi
san=$BUILD/asan
programs="tests/ops/test_ops tests/ops/test_contract tests/ops/test_grad tests/ops/test_comm tests/cudaemu/test_narrow tests/cudaemu/test_emu tests/cudaemu/test_nccl"
make DEPS=0 BUILD="$san" OPT="-O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -Wno-format-truncation" \
    LDFLAGS="-fopenmp -rdynamic -fsanitize=address,undefined" "$san/assay" "$san/cudaemu/libassay_cuda.so" $(for p in $programs; do echo "$san/$p"; done) >"$tmp/log" 2>&1
is $? 0 "it builds" || { tail -5 "$tmp/log" | sed 's/^/# /'; done_testing; }
case $san in /*) lib=$san/cudaemu ;; *) lib=$PWD/$san/cudaemu ;; esac
export ASSAY_LIBDIR=$lib ASAN_OPTIONS=detect_leaks=0 # what a device is given back at exit is no leak

suite() { # NAME VAR=VALUE...
    local name=$1 label="$*"
    shift
    env "$@" "$san/$name" >"$tmp/out" 2>"$tmp/err"
    local rc=$?
    [ $rc = 0 ] && tail -1 "$tmp/out" | grep -q '^1\.\.[1-9]' && ! grep -q 'AddressSanitizer\|runtime error' "$tmp/err"
    result $? "nothing to report: $label: $(grep -c '^ok' "$tmp/out") checks" || { grep '^not ok' "$tmp/out" | head -3; head -5 "$tmp/err" | sed 's/^/# /'; }
}
suite tests/cudaemu/test_emu A=1
suite tests/cudaemu/test_nccl A=1
suite tests/ops/test_ops ASSAY_BACKEND=cuda CUEMU_SEED=0 ASSAY_CUDA_TUNE=fused
suite tests/ops/test_ops ASSAY_BACKEND=cuda CUEMU_SEED=7 CUEMU_LAZY=1 ASSAY_CUDA_TUNE=separate
suite tests/ops/test_contract ASSAY_BACKEND=cuda CUEMU_SEED=1
suite tests/ops/test_grad ASSAY_BACKEND=cuda CUEMU_SEED=7
suite tests/cudaemu/test_narrow CUEMU_SEED=1
suite tests/ops/test_comm ASSAY_BACKEND=cuda CUEMU_DEVICES=3 CUEMU_LAZY=1

mkdir "$tmp/shards"
perl -e 'my ($s, @t) = (7); for (1 .. 3000) { $s = ($s * 1103515245 + 12345) % 2147483648; push @t, ($s >> 8) % 61; }
    open my $f, ">:raw", "$ARGV[0]/shards/c_train_000000.bin"; print $f pack("V256", 20240520, 1, 3000, (0) x 253), pack("v*", @t);' "$tmp"
cat >"$tmp/run.ini" <<INI
[model]
layers = 2
heads = 2
width = 32
context = 32
vocab = 61
dropout = 0.1
[train]
backend = cuda
precision = bf16
tokens = 512
batch = 4
checkpoint_every = 2
INI
for o in "--ranks 1" "--ranks 2" "--ranks 2 --set train.zero=1"; do
    CUEMU_DEVICES=2 "$san/assay" train --quiet --config "$tmp/run.ini" --shards "$tmp/shards" --out "$tmp/run$((n = ${n:-0} + 1))" $o >"$tmp/out" 2>&1
    rc=$?
    [ $rc = 0 ] && ! grep -q 'AddressSanitizer\|runtime error' "$tmp/out"
    result $? "nothing to report: training with $o" || tail -5 "$tmp/out" | sed 's/^/# /'
done
done_testing
