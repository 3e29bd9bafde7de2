#!/usr/bin/env bash
# What make is told about CUDA and cannot do is said: a toolkit that is not there, an architecture that no
# kernel has; and a bundle holds the objects of its own build.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
config() { make --no-print-directory BUILD="$BUILD" "$@" config 2>&1 | grep -E 'CUDA|ARCH|^cuda'; }
is "$(config CUDA_HOME=/nonexist | sed 's/^[^*]*//')" "*** CUDA_HOME=/nonexist has no bin/nvcc; leave it out to build without CUDA.  Stop." \
    "a toolkit that is named and is not there ends make"
is "$(CUDA_HOME=/nonexist config)" "cuda       not used in this build: CUDA_HOME=/nonexist has no bin/nvcc" "one of the environment is said"
is "$(config CUDA=0)" "cuda       not used in this build: CUDA=0" "so is that nobody wants it"
if config | grep -q '^cuda *not used'; then
    skip "nvcc"
else
    config ARCH=sm_70 >"$tmp/out"
    has "$tmp/out" "ARCH=sm_70: 70 is none; native, or of .*80.* which this nvcc and these kernels know" "an architecture without the kernels' instructions is refused"
    config ARCH=sm_8x >"$tmp/out"
    has "$tmp/out" "ARCH=sm_8x: 8x is none" "so is no architecture"
    is "$(make BUILD="$BUILD" ARCH=sm_80,90 -pn 2>/dev/null | sed -n 's/^GENCODE := //p')" \
        "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90" "a list is taken, with PTX of the last"
fi
# A build without CUDA in a folder where one with CUDA was.
mkdir -p "$tmp/b/bundle/bin/check"
cp "$ASSAY" "$tmp/b/bundle/bin/assay"
: >"$tmp/b/libassay_cuda.so"
: >"$tmp/b/bundle/bin/check/primitives"
bash pipelines/bundle.sh "$tmp/b" "$tmp/b/bundle/x" "$tmp/x.tar.gz" "" 2>"$tmp/err"
is "$? $(tar tf "$tmp/x.tar.gz" | grep -c 'libassay_cuda.so\|check/primitives')" "0 0" "a bundle without CUDA takes no object of an earlier build" || sed 's/^/# /' "$tmp/err"
has "$tmp/err" "bundle: without libassay_cuda.so, so it runs on CPUs only" "and says that it has none"
bash pipelines/bundle.sh "$tmp/b" "$tmp/b/bundle/x" "$tmp/x.tar.gz" "" "$tmp/b/libassay_cuda.so" 2>"$tmp/err"
is "$? $(tar tf "$tmp/x.tar.gz" | grep -c 'libassay_cuda.so\|check/primitives') $(grep -c 'CPUs only' "$tmp/err")" "0 2 0" "one with CUDA has both" || sed 's/^/# /' "$tmp/err"
done_testing
