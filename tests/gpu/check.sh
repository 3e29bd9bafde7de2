#!/usr/bin/env bash
# check: every check that wants a GPU, on a bare machine, in under 6 minutes: the machine's primitives
# against the emulator's, every op against the double reference, GPT-2 124M beside the same model in
# PyTorch, generation, kill and resume, compute-sanitizer. From an unpacked bundle (make bundle); needs
# no network, no compiler and no root. Prints a table and writes $OUT/gpu-check.json; ends with 0 when
# nothing failed. A part that cannot be done here is named with the reason.
#
# Each part has its own most seconds, and the whole is watched: when LIMIT is over (or a signal comes) what
# still runs is killed, and the table and the file say so. What a part has found is not lost to another.
#
#   OUT=folder   PARTS="primitives ops ..."   LIMIT=350 (seconds for all)   PRECISION=bf16
#   SANITIZER=program instead of the compute-sanitizer that is found
#   EMULATED=1 with ASSAY_LIBDIR and CHECK_PRIMITIVES: tiny sizes on the emulator, to test this script.
set -u
export LC_ALL=C
here=$(cd "$(dirname "$0")/../.." && pwd)
ASSAY=${ASSAY:-$here/assay}
CHECK=${CHECK:-$here/check}
OUT=${OUT:-$here}
LIMIT=${LIMIT:-350}
EMULATED=${EMULATED:-}
# What is ours first: nobody knows how long another's compiler takes.
PARTS=${PARTS:-device primitives ops train generate resume torch sanitizer}
{ mkdir -p "$OUT" && OUT=$(cd "$OUT" && pwd) && [ -w "$OUT" ]; } 2>/dev/null ||
    { echo "gpu-check: $OUT is no folder that can be written to: set OUT=folder" >&2; exit 2; }
[[ $LIMIT =~ ^[1-9][0-9]*$ ]] || { echo "gpu-check: LIMIT=$LIMIT is no number of seconds" >&2; exit 2; }
tmp=$(mktemp -d)
: >"$tmp/rows" # part|state|seconds|what it says
: >"$tmp/figures"
: >"$tmp/device" # what opened: nothing yet

# ---- the report ----
kept=0 # seconds that the parts before the sanitizer leave to it
left() { echo $((LIMIT - SECONDS - kept)); }
row() { # part state seconds detail
    printf '%s|%s|%s|%s\n' "$1" "$2" "$3" "$(tr '|\n\t"\\' "/   '/" <<<"$4" | tr -cd '[:print:]' | sed 's/ *$//')" >>"$tmp/rows"
    printf '  %-12s %-8s %4s s  %s\n' "$1" "$2" "$3" "$4" >&2
}
skip() { row "$1" skipped 0 "$2"; }
figure() { # name value: a number, or null
    [[ $2 =~ ^-?[0-9.]+(e[-+]?[0-9]+)?$ ]] && printf '%s|%s\n' "$1" "$2" >>"$tmp/figures" || printf '%s|null\n' "$1" >>"$tmp/figures"
}
value_of() { grep "^$1|" "$tmp/figures" | tail -1 | cut -d'|' -f2; }
# within SECONDS CMD...: what it prints goes to $tmp/out; 124 when the time is over.
within() {
    local most=$1 room
    shift
    room=$(left)
    [ "$room" -lt "$most" ] && most=$room
    [ "$most" -gt 0 ] || return 124
    timeout -k 5 "$most" "$@" >"$tmp/out" 2>&1 &
    echo $! >"$tmp/running" # it leads a group of its own, which the watch ends with it
    wait $!
}
why() { [ "$1" = 124 ] || [ "$1" = 137 ] && echo "no time left" || grep -m1 -E '^not ok|rror|assay:' "$tmp/out" || tail -1 "$tmp/out"; }
number() { sed -n "s/^ *\"$2\": *\([-0-9.e+]*\).*/\1/p" "$1/manifest.json" | head -1; }
times() { awk -v a="${1:-x}" -v b="${2:-x}" 'BEGIN { if (a + 0 > 0 && b + 0 > 0) printf "%.6g", a / b; else print "null" }'; }

# ---- sizes ----
if [ -n "$EMULATED" ]; then
    layers=2 heads=2 width=32 context=32 vocab=256 batch=2 steps=24 rate=1e-2 data=2000 every=0 PRECISION=${PRECISION:-bf16}
else
    layers=12 heads=12 width=768 context=1024 vocab=50257 batch=32 steps=200 rate=6e-4 data=4000000 every=0 PRECISION=${PRECISION:-bf16}
fi
export ASSAY_BACKEND=cuda
# A made shard: mostly predictable, so that a loss falls. Text of octal escapes, which printf makes bytes of.
shard() { # FILE COUNT VOCAB SEED
    printf %b "$(awk -v n="$2" -v vocab="$3" -v seed="$4" 'BEGIN {
        srand(seed)
        vocab = vocab < 4096 ? vocab : 4096
        for (x = 0; x < 256; x++) byte[x] = sprintf("\\0%03o", x)
        head[0] = 20240520; head[1] = 1; head[2] = n; head[3] = 0
        for (k = 0; k < 4; k++)
            for (b = 0; b < 4; b++) { out = out byte[head[k] % 256]; head[k] = int(head[k] / 256) }
        for (k = 16; k < 1024; k++) out = out byte[0]
        for (x = 0; x < vocab; x++) word[x] = byte[x % 256] byte[int(x / 256)]
        x = 0
        for (k = 1; k <= n; k++) {
            x = (x * 5 + 1 + (rand() < 0.2 ? 7 : 0)) % vocab
            out = out word[x]
            if (k % 512 == 0) { printf "%s", out; out = "" }
        }
        printf "%s", out
    }')" >"$1" && [ "$(wc -c <"$1")" = $((1024 + 2 * $2)) ]
}
config() { # FILE layers heads width context vocab batch steps checkpoint_every
    cat >"$1" <<INI
[model]
layers = $2
heads = $3
width = $4
context = $5
vocab = $6
[train]
backend = cuda
precision = $PRECISION
tokens = $(($5 * $7 * $8))
batch = $7
checkpoint_every = $9
lr = $rate
warmup = 0.1
clip = 1
INI
}

# ---- the parts ----
part_device() {
    within 40 "$ASSAY" doctor
    local rc=$? line
    line=$(grep '^cuda' "$tmp/out" | sed 's/^cuda *//')
    if [ $rc = 0 ] && grep -q '^cuda .*CUDA [0-9]' "$tmp/out"; then
        row device ok $((SECONDS - t)) "$line"
        echo "$line" >"$tmp/device"
    else
        row device failed $((SECONDS - t)) "${line:-$(why $rc)}"
    fi
}

part_primitives() {
    local program=${CHECK_PRIMITIVES:-$CHECK/primitives} words=${CHECK_WORDS:-$CHECK/primitives.words} rc
    [ -x "$program" ] || { skip primitives "this bundle was built without nvcc"; return; }
    [ -f "$words" ] || { skip primitives "this bundle was built without the emulator"; return; }
    within 30 "$program" --against "$words"
    rc=$?
    figure primitives "$(grep -c '^ok' "$tmp/out")"
    [ $rc = 0 ] && row primitives ok $((SECONDS - t)) "$(grep -c '^ok' "$tmp/out") agree with the emulator" ||
        row primitives failed $((SECONDS - t)) "$(why $rc): $(grep -m1 '^# word' "$tmp/out")"
}

part_ops() {
    local n=0 rc spec name set end=$((SECONDS + 100))
    for spec in "test_ops ASSAY_CUDA_TUNE=fused" "test_ops ASSAY_CUDA_TUNE=separate" "test_contract A=1" "test_grad A=1" "test_narrow A=1"; do
        read -r name set <<<"$spec"
        [ -n "$EMULATED" ] && [ "$spec" != "test_contract A=1" ] && continue # the others are in make test
        [ -x "$CHECK/$name" ] || { skip "$name" "not in this bundle"; continue; }
        within $((end - SECONDS)) env "$set" ASSAY_LIBDIR="${ASSAY_LIBDIR:-$here}" "$CHECK/$name"
        rc=$?
        if [ $rc != 0 ] || ! tail -1 "$tmp/out" | grep -q '^1\.\.[1-9]'; then
            cp "$tmp/out" "$OUT/$name.log"
            row ops failed $((SECONDS - t)) "$name $set: $(why $rc); more in $OUT/$name.log"
            return
        fi
        n=$((n + $(grep -c '^ok' "$tmp/out")))
    done
    figure op_checks $n
    row ops ok $((SECONDS - t)) "$n checks of ops against the double reference"
}

part_train() {
    mkdir -p "$tmp/shards"
    shard "$tmp/shards/made_train_000000.bin" $data $vocab 1 || { row train failed 0 "no shard could be written to $tmp"; return; }
    config "$tmp/big.ini" $layers $heads $width $context $vocab $batch $steps $every
    within 100 "$ASSAY" train --quiet --config "$tmp/big.ini" --shards "$tmp/shards" --out "$tmp/big"
    local rc=$? first last rate mfu
    if [ $rc != 0 ]; then
        row train failed $((SECONDS - t)) "$(why $rc)"
        return
    fi
    cp "$tmp/big/metrics.jsonl" "$OUT/gpu-check-metrics.jsonl"
    first=$(number "$tmp/big" first_loss) last=$(number "$tmp/big" last_tenth_loss)
    rate=$(number "$tmp/big" tokens_per_second) mfu=$(number "$tmp/big" mfu)
    figure train_tokens_per_s "$rate"
    figure train_mfu "$mfu"
    figure train_step_ms_p50 "$(number "$tmp/big" step_ms_p50)"
    figure train_stall_share "$(number "$tmp/big" stall_share)"
    figure train_memory "$(number "$tmp/big" memory_most)"
    figure train_energy_j "$(number "$tmp/big" energy_j)"
    figure train_peak_tflops "$(number "$tmp/big" peak_tflops)"
    figure flops_token "$(number "$tmp/big" flops_token)"
    figure train_first_loss "$first"
    figure train_last_loss "$last"
    awk -v a="$first" -v b="$last" 'BEGIN { exit !(b < a) }' &&
        row train ok $((SECONDS - t)) "$steps steps of $batch x $context in $PRECISION: ${rate%.*} tokens/s, MFU ${mfu:-unknown}, loss $first to $last" ||
        row train failed $((SECONDS - t)) "the loss does not fall: $first to $last"
}

part_torch() {
    [ -f "$tmp/shards/made_train_000000.bin" ] || { skip torch "the training before it made no data"; return; }
    command -v python3 >/dev/null || { skip torch "python3 is not here"; return; }
    local on=cuda more='' rc peak flops
    [ -z "$EMULATED" ] || on=cpu more=--no-compile
    within 110 python3 "$here/tests/gpu/torch_gpt2.py" "$tmp/shards/made_train_000000.bin" --layers $layers --heads $heads \
        --width $width --context $context --vocab $vocab --batch $batch --steps $steps --seconds 60 --device $on $more
    rc=$?
    if [ $rc = 0 ] && grep -q '^torch_gpt2: ' "$tmp/out"; then
        skip torch "$(grep -m1 '^torch_gpt2: ' "$tmp/out" | cut -d' ' -f2-)"
        return
    fi
    if [ $rc != 0 ] || ! tail -1 "$tmp/out" | grep -q '^{'; then # not ours: no check of assay failed
        cp "$tmp/out" "$OUT/torch.log"
        skip torch "it did not end well: $(why $rc); more in $OUT/torch.log"
        return
    fi
    tail -1 "$tmp/out" >"$OUT/gpu-check-torch.json"
    field() { sed -n "s/.*\"$1\": *\([-0-9.e+]*\).*/\1/p" "$OUT/gpu-check-torch.json"; }
    figure torch_tokens_per_s "$(field tokens_per_s)"
    figure torch_loss "$(field loss)"
    figure torch_memory "$(field memory)"
    peak=$(value_of train_peak_tflops) flops=$(value_of flops_token)
    figure torch_mfu "$(awk -v r="$(field tokens_per_s)" -v f="$flops" -v p="$peak" 'BEGIN { if (p + 0 > 0) printf "%.4f", r * f / (p * 1e12); else print "null" }')"
    figure times_torch "$(times "$(value_of train_tokens_per_s)" "$(field tokens_per_s)")"
    row torch ok $((SECONDS - t)) "PyTorch in the same run: $(field tokens_per_s | cut -d. -f1) tokens/s; assay has $(value_of times_torch) times that"
}

part_generate() {
    local model="$tmp/big/latest" n=32 cuda cpu rc
    [ -e "$model" ] || { skip generate "the training before it left no checkpoint"; return; }
    [ -z "$EMULATED" ] || n=6
    say() { within 60 "$ASSAY" sample --model "$model" --backend "$1" --prompt-ids 1,6,31 --ids --max-new-tokens $n --temperature 0 --quiet; }
    say cuda
    rc=$?
    cuda=$(tail -1 "$tmp/out")
    [ $rc = 0 ] && [ -n "$cuda" ] || { row generate failed $((SECONDS - t)) "$(why $rc)"; return; }
    say cpu
    cpu=$(tail -1 "$tmp/out")
    [ "$cuda" = "$cpu" ] && row generate ok $((SECONDS - t)) "$n greedy tokens, the same as on the CPU" ||
        row generate failed $((SECONDS - t)) "on cuda $cuda, on the CPU $cpu"
}

part_resume() {
    local size=
    [ -z "$EMULATED" ] || size=tiny
    within 60 env ASSAY="$ASSAY" SIZE=$size PRECISION="$PRECISION" bash "$here/tests/gpu/smoke.sh"
    local rc=$?
    [ $rc = 0 ] && row resume ok $((SECONDS - t)) "$(grep '^gpu-smoke: ok' "$tmp/out" | cut -d: -f3- | sed "s/^ *//")" ||
        row resume failed $((SECONDS - t)) "$(grep -m1 FAILED "$tmp/out" || why $rc)"
}

sanitizer() { # where the program is
    [ -z "${SANITIZER:-}" ] || { echo "$SANITIZER"; return; }
    [ -n "$EMULATED" ] || command -v compute-sanitizer ||
        ls /usr/local/cuda*/bin/compute-sanitizer "${CUDA_HOME:-/none}/bin/compute-sanitizer" 2>/dev/null | head -1
}

# ok: all four tools looked at it; partial: some did; the others are named with the reason.
part_sanitizer() {
    local tool rc done='' not='' own program n=4
    program=$(sanitizer)
    [ -z "$EMULATED" ] || [ -n "$program" ] || { skip sanitizer "the emulator is no device"; return; }
    [ -n "$program" ] || { skip sanitizer "compute-sanitizer is not here"; return; }
    mkdir -p "$tmp/few"
    shard "$tmp/few/made_train_000000.bin" 3000 256 2
    config "$tmp/few.ini" 2 2 128 160 256 2 2 0 # three tiles of attention, the last of them not full
    for tool in memcheck racecheck synccheck initcheck; do
        [ "$(left)" -gt 15 ] || { not="$not $tool(not begun: no time left)"; continue; }
        # What the library's own kernels do in shared memory and with their workspace is not looked at: only
        # memcheck has them. Calls that fail are reported by the calls themselves.
        [ $tool = memcheck ] && own=separate || own=own
        rm -rf "$tmp/few-out"
        within $(($(left) / n)) env ASSAY_CUDA_TUNE=$own "$program" --tool $tool --report-api-errors no --error-exitcode 9 \
            "$ASSAY" train --quiet --config "$tmp/few.ini" --shards "$tmp/few" --out "$tmp/few-out"
        rc=$? n=$((n - 1))
        if [ $rc = 9 ] || { [ $rc != 0 ] && [ $rc -lt 124 ] && ! grep -q 'not supported\|No such option\|unrecognised' "$tmp/out"; }; then
            cp "$tmp/out" "$OUT/$tool.log"
            row sanitizer failed $((SECONDS - t)) "$tool: $(grep '=========' "$tmp/out" | grep -m1 -v 'COMPUTE-SANITIZER'); more in $OUT/$tool.log"
            return
        fi
        if [ $rc != 0 ] && [ $rc -lt 124 ]; then
            cp "$tmp/out" "$OUT/$tool.log"
            not="$not $tool(does not run here, $OUT/$tool.log)"
            continue
        fi
        [ $rc = 0 ] && done="$done $tool" || not="$not $tool(out of time)"
    done
    figure sanitizer_tools "$(wc -w <<<"$done")"
    if [ -z "$not" ]; then
        row sanitizer ok $((SECONDS - t)) "two steps:$done"
    elif [ -n "$done" ]; then
        row sanitizer partial $((SECONDS - t)) "two steps:$done; not$not"
    else
        row sanitizer skipped $((SECONDS - t)) "no tool ended:$not"
    fi
}

run_parts() {
    local part
    [[ " $PARTS " != *" sanitizer "* ]] || [ -z "$(sanitizer)" ] || kept=$((LIMIT / 5))
    for part in $PARTS; do
        t=$SECONDS
        [ "$part" != sanitizer ] || kept=0
        echo "$part $t" >"$tmp/part"
        if [ "$(left)" -le 0 ]; then
            skip "$part" "no time left"
        elif [ "$part" != device ] && [ ! -s "$tmp/device" ]; then
            skip "$part" "no device opens"
        else
            "part_$part"
        fi
    done
    : >"$tmp/part"
}

# What was killed and what never began: every part is in the table.
name_the_rest() {
    local part now=
    read -r now t <"$tmp/part" 2>/dev/null
    for part in $PARTS; do
        grep -q "^$part|" "$tmp/rows" && continue
        if [ "$part" = "$now" ]; then
            row "$part" failed $((SECONDS - t)) "${1:-it ended without a word}"
        else
            skip "$part" "${1:-the parts before it ended early}"
        fi
    done
}

report() {
    local bad
    bad=$(grep -c '|failed|' "$tmp/rows")
    {
        printf '{\n  "date": "%s",\n  "commit": "%s",\n  "emulated": %s,\n  "device": "%s",\n  "seconds": %d,\n  "failed": %d,\n  "parts": [\n' \
            "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(cat "$here/COMMIT" 2>/dev/null)" "$([ -n "$EMULATED" ] && echo true || echo false)" \
            "$(tr -d '"\\' <"$tmp/device")" $SECONDS "$bad"
        awk -F'|' '{ printf "%s    {\"part\": \"%s\", \"state\": \"%s\", \"seconds\": %s, \"says\": \"%s\"}", (NR > 1 ? ",\n" : ""), $1, $2, $3, $4 } END { print "" }' "$tmp/rows"
        printf '  ],\n  "figures": {\n'
        awk -F'|' '{ printf "%s    \"%s\": %s", (NR > 1 ? ",\n" : ""), $1, $2 } END { print "" }' "$tmp/figures"
        printf '  }\n}\n'
    } >"$OUT/gpu-check.json"
    awk -F'|' '{ printf "%-12s %-8s %5s s  %s\n", $1, $2, $3, $4 }' "$tmp/rows"
    echo "gpu-check: $bad failed, $(grep -c '|skipped|' "$tmp/rows") skipped, $(grep -c '|partial|' "$tmp/rows") partial, $SECONDS s; $OUT/gpu-check.json" >&2
    [ "$bad" = 0 ]
}

end_with() { # what is said of the part that runs
    local group
    group=$(cat "$tmp/running" 2>/dev/null)
    trap '' INT TERM HUP
    kill -9 "$parts" 2>/dev/null
    [ -z "$group" ] || kill -9 -- "-$group" 2>/dev/null
    wait "$parts" 2>/dev/null
    name_the_rest "$1"
    report
    rm -rf "$tmp"
    exit 1
}

echo "gpu-check: $(cat "$here/COMMIT" 2>/dev/null || echo 'no commit')${EMULATED:+, emulated: it tests this script, not a GPU}" >&2
run_parts &
parts=$!
trap 'end_with "a signal ended it"' INT TERM HUP
while kill -0 $parts 2>/dev/null; do
    [ "$SECONDS" -lt $((LIMIT + 8)) ] || end_with "the time is over, and it would not end"
    sleep 0.2
done
wait $parts
name_the_rest ""
report
bad=$?
rm -rf "$tmp"
exit $bad
