#!/usr/bin/env bash
# The CUDA backend where there is no GPU: the conformance suite of tests/ops on the emulated device
# with several schedules, streams as late as they may be, the ways products can be taken; and the tool
# itself with that backend, loaded as the real one is. Compiled and emulated, not run on a GPU.
set -u
. tests/cli/tap.sh
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
suite test_contract CUEMU_SEED=0 CUEMU_GUARD=1
suite test_contract CUEMU_SEED=1
suite test_grad CUEMU_SEED=7

"$ASSAY" doctor >"$tmp/doctor" 2>&1
ok "doctor names the device and says that it is emulated" grep -q 'emulated device 0' "$tmp/doctor"
CUEMU_DRIVER=12020 "$ASSAY" doctor >"$tmp/doctor" 2>&1
ok "a driver too old: doctor says which it needs" grep -q 'the driver knows CUDA 12.2, this build needs' "$tmp/doctor"
done_testing
