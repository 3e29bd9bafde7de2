#!/usr/bin/env bash
# The CUDA kernels with every load and store looked at (tests/cudaemu/watch.cpp): no race in the
# conformance suites under several schedules, nor in a training step; and memory traffic of streaming
# kernels at most 1.25 times the fewest sectors that hold the bytes.
set -u
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ ! -f "$BUILD/cudaemu/libassay_cuda.so" ]; then
    skip "NVIDIA's headers (cuda_runtime.h, cublasLt.h)"
    done_testing
fi
if ! command -v clang++ clang++-14 >/dev/null 2>&1; then
    echo "ok 1 # SKIP clang++ is not here: its -fsanitize=thread instruments the kernels"
    echo "1..1"
    exit 0
fi
make DEPS=0 BUILD="$BUILD" watch-built "$BUILD/tests/cudaemu/test_watch" >"$tmp/log" 2>&1
is $? 0 "it builds" || { sed 's/^/# /' "$tmp/log" | tail -5; done_testing; }
case $BUILD in /*) lib=$BUILD/cudaemu/watch ;; *) lib=$PWD/$BUILD/cudaemu/watch ;; esac
export ASSAY_LIBDIR=$lib ASSAY_BACKEND=cuda

suite() { # NAME VAR=VALUE...
    local name=$1 label="$*"
    shift
    env "$@" "$BUILD/tests/$name" >"$tmp/out" 2>"$tmp/err"
    local rc=$?
    [ $rc = 0 ] && tail -1 "$tmp/out" | grep -q '^1\.\.[1-9]'
    result $? "no race: $label: $(grep -c '^ok' "$tmp/out") checks" || head -3 "$tmp/err" | sed 's/^/# /'
}
"$BUILD/tests/cudaemu/test_watch" >"$tmp/out"
is $? 0 "every planted race is named: $(grep -c '^ok' "$tmp/out") checks" || grep '^not ok' "$tmp/out"
suite ops/test_ops CUEMU_SEED=0 ASSAY_CUDA_TUNE=fused
suite ops/test_ops CUEMU_SEED=7 ASSAY_CUDA_TUNE=separate
suite ops/test_contract CUEMU_SEED=1
suite ops/test_grad CUEMU_SEED=5
suite cudaemu/test_narrow CUEMU_SEED=7

# A training step: heads of 64 and a width of whole packs, as GPT-2 has them.
mkdir "$tmp/shards"
perl -e 'my ($s, @t) = (7); for (1 .. 400) { $s = ($s * 1103515245 + 12345) % 2147483648; push @t, ($s >> 8) % 512; }
    open my $f, ">:raw", "$ARGV[0]/shards/c_train_000000.bin"; print $f pack("V256", 20240520, 1, 400, (0) x 253), pack("v*", @t);' "$tmp"
cat >"$tmp/run.ini" <<INI
[model]
layers = 2
heads = 4
width = 256
context = 64
vocab = 512
dropout = 0.1
[train]
backend = cuda
tokens = 128
batch = 2
checkpoint_every = 0
INI
train() { # PRECISION VAR=VALUE...
    local p=$1
    shift
    rm -rf "$tmp/out.d"
    env ASSAY_CUDA_TUNE=separate "$@" "$ASSAY" train --quiet --config "$tmp/run.ini" --shards "$tmp/shards" --out "$tmp/out.d" \
        --set "train.precision=$p" >"$tmp/out" 2>&1
    local rc=$?
    [ $rc = 0 ] || tail -3 "$tmp/out" | sed 's/^/# /'
    return $rc
}
for p in bf16 fp16 fp32; do
    ok "no race in a step of training, $p" train $p CUEMU_SEED=7
done
streaming='adamw.cu:cuda_adamw adamw.cu:cuda_sum_squares embed.cu:launch_fwd linear.cu:cuda_add_partials linear.cu:launch_gelu linear.cu:launch_grad norm.cu:launch_bwd norm.cu:launch_fwd classifier.cu:launch'
for p in bf16 fp32; do
    rm -f "$tmp/shape"
    ok "a step with its traffic counted, $p" train $p CUEMU_SHAPE="$tmp/shape"
    for k in $streaming; do
        ratio=$(awk -v k=$k '$1 == k {print $6}' "$tmp/shape")
        ok "$p: $k moves ${ratio:-nothing} times the fewest sectors" awk -v r="${ratio:-9}" 'BEGIN { exit !(r <= 1.25) }'
    done
    grep '^#' "$tmp/shape"
    awk '$1 != "#" {print "# " $0}' "$tmp/shape"
done
done_testing
