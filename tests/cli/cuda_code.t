#!/usr/bin/env bash
# What nvcc made of the CUDA kernels: the backend was built with every warning, spill and use of local
# memory an error, and the machine code has the instructions it is meant to have. Needs nvcc, no GPU.
set -u
. tests/cli/tap.sh
so=$BUILD/libassay_cuda.so
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
if [ -z "$nvcc" ] || [ ! -f "$so" ]; then
    echo "ok 1 # SKIP nvcc is not here"
    echo "1..1"
    exit 0
fi
python3 tests/cudaemu/opcodes.py "$BUILD"/cuda/*.keep --probe "$nvcc" "$tmp" >"$tmp/out" 2>&1
rc=$?
grep -E '^# sm_' "$tmp/out"
ok "machine code: $(grep -c '^ok' "$tmp/out") assertions on $(ls "$BUILD"/cuda/*.keep/*.cubin | wc -l) cubins" [ $rc = 0 ]
grep -A8 '^not ok' "$tmp/out" | cut -c1-200 | sed 's/^/# /' | head -40

# A kernel that spills must end the build: the check itself is checked.
cat >"$tmp/spill.cu" <<'END'
__global__ void __launch_bounds__(1024) spill(float *o)
{
    float v[100];
    for (int i = 0; i < 100; i++) v[i] = o[i * 7 + threadIdx.x];
    for (int k = 0; k < 100; k++)
        for (int i = 0; i < 100; i++) v[i] = v[i] * v[(i + k) % 100] + 1;
    for (int i = 0; i < 100; i++) o[i * 1024 + threadIdx.x] = v[i];
}
END
"$nvcc" -arch=sm_80 -Werror all-warnings -Xptxas -warn-spills,-warn-lmem-usage,-Werror -cubin -o "$tmp/x" "$tmp/spill.cu" >"$tmp/why" 2>&1
is "$((!!$?))" 1 "a kernel that spills does not compile"
ok "and the spill is named" grep -q -i 'spill\|local memory' "$tmp/why"
is "$(nm -D --defined-only "$so" | awk '{print $3}' | sort | tr '\n' ' ')" "assay_backend assay_comm " "the object shows two names only"
ok "the object needs no CUDA library to be opened" bash -c '! ldd "$1" | grep -i -E "cuda|cublas|nccl|nvidia"' _ "$so"
done_testing
