#!/usr/bin/env bash
# make bundle, and what a rented box runs first. The bundle is built from this tree, unpacked elsewhere
# and run without this machine's libraries; gpu-smoke and gpu-check run from it on the emulator, tiny.
set -u
. tests/cli/tap.sh
unset MAKEFLAGS MAKELEVEL MFLAGS # what make test hands down is nothing to a rented box
if grep -q fsanitize "$BUILD/flags"; then
    echo "ok 1 # SKIP a build with sanitizers is not for packing"
    echo "1..1"
    exit 0
fi
unset ASSAY # the one in the bundle is tested
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
make bundle DEPS=0 BUILD="$BUILD" >"$tmp/log" 2>&1
if ! is $? 0 "make bundle"; then
    tail -5 "$tmp/log" | sed 's/^/# /'
    done_testing
fi
tar -C "$tmp" -xf "$BUILD"/assay-*.tar.gz
box=$(ls -d "$tmp"/assay-*/)
box=${box%/}
# What a machine must have itself: glibc, the C++ and gcc runtimes.
elsewhere() { ldd "$box/assay" "$box"/check/test_* | awk '$2 == "=>" {print $1, $3}' | grep -v " $box/" | grep -v -E '^(lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+))\.so'; }
is "$(elsewhere | sort -u | tr '\n' ';')" "" "every other library comes from the bundle"
is "$(ls "$box/lib" | grep -c -E '^lib(c|cuda|cudart|cublas.*|nccl|mpi)\.so')" 0 "glibc, CUDA, NCCL and MPI come from the machine"
newest=$(for f in "$box/assay" "$box"/*.so "$box"/lib/* "$box"/check/*; do objdump -T "$f" 2>/dev/null; done |
    grep -o 'GLIBC_2\.[0-9]*' | sort -u -t. -k2 -n | tail -1)
ok "glibc symbols up to 2.35 at most: $newest" [ "${newest#GLIBC_2.}" -le 35 ]
ok "it runs with an empty environment, from any folder" env -i bash -c 'cd / && "$1/assay" --version >/dev/null' _ "$box"
small_run tokens=2K batch=2 seeds=3 answer=2 >"$tmp/tiny.ini"
cp "$tmp/tiny.ini" "$box/pipelines/runs/"
(cd "$box" && env -i PATH="$PATH" make run RUN=tiny) >"$tmp/log" 2>&1
is $? 0 "make run in the bundle: from a run file to its result" || tail -5 "$tmp/log" | sed 's/^/# /'
ok "the result is there" test -s "$box/runs/tiny/result.msgpack"
ok "make lists what it can do" bash -c 'make -C "$1" | grep -q gpu-check' _ "$box"
is "$(make -C "$box" --no-print-directory | grep -c judge-check) $(make -C "$box" --no-print-directory judge-check 2>&1 | head -1)" \
    "0 judge-check is of the source tree: its files are not in a bundle" "and not what it cannot" || make -C "$box" judge-check 2>&1 | sed 's/^/# /'
is "$(grep -o 'docs/ci/[a-z.-]*' "$box/docs/gate.md" | sort -u | while read -r f; do [ -f "$box/$f" ] || echo "$f"; done)" "" "the files that its pages name are in it"
has "$box/README.md" "This is a bundle: built already" "its README says what it is and what the machine must have"

# A driver that is there and lists no GPU: one sentence, and none of the shell's.
mkdir "$tmp/none"
printf '#!/bin/sh\necho "No devices were found"\n' >"$tmp/none/nvidia-smi"
chmod +x "$tmp/none/nvidia-smi"
if ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
    echo "# a GPU is here: what gpu-smoke says without one is not looked at"
else
    is "$(PATH="$tmp/none:$PATH" bash "$box/tests/gpu/smoke.sh" 2>&1)" \
        "gpu-smoke: FAILED: no GPU is here (nvidia-smi and /dev/nvidia* show none)" "gpu-smoke without a GPU says so, once"
fi
if [ ! -f "$BUILD/cudaemu/libassay_cuda.so" ]; then
    skip "gpu-smoke and gpu-check on the emulator: NVIDIA's headers (cuda_runtime.h, cublasLt.h)"
    done_testing
fi
make BUILD="$BUILD" "$BUILD/cudaemu/primitives" >/dev/null 2>&1
export ASSAY_LIBDIR=$PWD/$BUILD/cudaemu
[ "${BUILD#/}" = "$BUILD" ] || ASSAY_LIBDIR=$BUILD/cudaemu
(cd / && DEVICES=1 SIZE=tiny bash "$box/tests/gpu/smoke.sh") >"$tmp/smoke" 2>&1
is $? 0 "$(tail -1 "$tmp/smoke")"
(cd / && CUEMU_DEVICES=2 DEVICES=2 SIZE=tiny bash "$box/tests/gpu/smoke.sh") >"$tmp/smoke" 2>&1
is $? 0 "$(tail -1 "$tmp/smoke")"
ok "its memory has a unit" grep -q 'memory [0-9.]* MiB,' "$tmp/smoke"
(CUEMU_DEVICES=0 DEVICES=1 SIZE=tiny bash "$box/tests/gpu/smoke.sh") >"$tmp/smoke" 2>&1
is "$? $(grep -c . "$tmp/smoke")" "1 1" "without a device it fails, in one line"
(DEVICES=x SIZE=tiny bash "$box/tests/gpu/smoke.sh") >"$tmp/smoke2" 2>&1
is "$? $(cat "$tmp/smoke2")" "1 gpu-smoke: FAILED: DEVICES=x is no number of GPUs" "DEVICES=x is refused in words"
ok "and says why" grep -q 'FAILED: cuda .*no device' "$tmp/smoke"

check() { EMULATED=1 DEVICES=1 CHECK_PRIMITIVES=$ASSAY_LIBDIR/primitives OUT=$tmp/out bash "$box/tests/gpu/check.sh" >"$tmp/table" 2>"$tmp/err"; }
says() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(" ".join(p["part"] + ":" + p["state"] for p in d["parts"]))' "$tmp/out/gpu-check.json"; }
check
is $? 0 "gpu-check, emulated" || sed 's/^/# /' "$tmp/table"
is "$(says | sed 's/torch:[a-z]*/torch:any/')" "device:ok primitives:ok ops:ok train:ok generate:ok resume:ok torch:any sanitizer:skipped" \
    "every part is in its report, and what could not be done is skipped by name"
grep -E 'skipped' "$tmp/table" | sed 's/^/# /'
ok "with its figures" python3 -c 'import json, sys; f = json.load(open(sys.argv[1]))["figures"]; assert f["train_tokens_per_s"] > 0 and f["train_mfu"] is None and f["op_checks"] > 50, f' "$tmp/out/gpu-check.json"
mkdir "$tmp/bin"
for f in $(compgen -c | sort -u); do
    f=$(type -P "$f") && [[ ${f##*/} != python* ]] && ln -sf "$f" "$tmp/bin/"
done
PATH=$tmp/bin PARTS="device train generate torch" check
is "$? $(says)" "0 device:ok train:ok generate:ok torch:skipped" "without Python all but PyTorch is done" || sed 's/^/# /' "$tmp/table"
ok "which is named" grep -q '^torch .*python3 is not here' "$tmp/table"
mkdir "$tmp/wrong"
head -c 100 /dev/zero >"$tmp/wrong/words"
EMULATED=1 CHECK_WORDS=$tmp/wrong/words PARTS="device primitives" CHECK_PRIMITIVES=$ASSAY_LIBDIR/primitives OUT=$tmp/out bash "$box/tests/gpu/check.sh" >"$tmp/table" 2>&1
is $? 1 "a primitive that differs fails the check"
is "$(says)" "device:ok primitives:failed" "and stands in the report"
# compute-sanitizer: which tools looked at it is said, and none that did not counts.
printf '#!/bin/sh\ncase $2 in %%s) sleep 60;; %%s) echo "not supported"; exit 1;; esac\n' >"$tmp/sanitizer"
with() { # PATTERN of tools that hang, of those that do not run
    sed "s/%s/$1/; s/%s/$2/" "$tmp/sanitizer" >"$tmp/san"
    chmod +x "$tmp/san"
    EMULATED=1 SANITIZER=$tmp/san PARTS="device sanitizer" LIMIT=${3:-30} OUT=$tmp/out bash "$box/tests/gpu/check.sh" >"$tmp/table" 2>"$tmp/err"
}
with none none
is "$? $(grep -c '^sanitizer *ok .*two steps: memcheck racecheck synccheck initcheck$' "$tmp/table")" "0 1" "four tools that end are ok" || sed 's/^/# /' "$tmp/table"
with none initcheck
is "$(grep -c '^sanitizer *partial .*two steps: memcheck racecheck synccheck; not initcheck(does not run here' "$tmp/table") $(grep -c '1 partial' "$tmp/err")" "1 1" "one that does not run makes it partial" || sed 's/^/# /' "$tmp/table"
with '*check' none 19
is "$(grep -c '^sanitizer *skipped .*no tool ended: memcheck(out of time) racecheck(not begun: no time left)' "$tmp/table")" 1 "where none ended it is skipped, and each is named" || sed 's/^/# /' "$tmp/table"
: >"$tmp/file"
for out in /proc/none "$tmp/file"; do
    EMULATED=1 OUT=$out bash "$box/tests/gpu/check.sh" >"$tmp/table" 2>&1
    is "$? $(cat "$tmp/table")" "2 gpu-check: $out is no folder that can be written to: set OUT=folder" "a report that cannot be written, $out, is refused at once"
done
# Killed in the middle: what was found is told, what ran and what did not begin is named, nothing runs on.
printf '#!/bin/sh\n[ "$1" = train ] || exec "%s" "$@"\nsleep 321\n' "$box/assay" >"$tmp/stuck"
chmod +x "$tmp/stuck"
ASSAY=$tmp/stuck PARTS="device train generate" check &
for _ in $(seq 100); do
    sleep 0.2
    stuck=$(pgrep -f "$tmp/stuck train --quiet" | tail -1)
    [ -z "$stuck" ] || break
done
kill "$(pgrep -f "$box/tests/gpu/check.sh" | head -1)"
wait $!
is "$? $(says)" "1 device:ok train:failed generate:skipped" "a check that is ended still tells all it knows"
ok "and leaves nothing running" bash -c '[ -n "$1" ] || exit 1; for _ in $(seq 50); do kill -0 "$1" 2>/dev/null || exit 0; sleep 0.1; done; exit 1' _ "$stuck"
CUEMU_DEVICES=0 check
is "$? $(says | cut -d' ' -f1,2)" "1 device:failed primitives:skipped" "without a device nothing is claimed"
ok "and the shell complains of no file" bash -c '! grep "line [0-9]*:" "$1"' _ "$tmp/err"
done_testing
