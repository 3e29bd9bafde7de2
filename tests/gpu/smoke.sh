#!/usr/bin/env bash
# smoke: 20 steps on all GPUs present, a checkpoint, a kill, and the same weights after going on from it.
# Under a minute on a machine with GPUs; needs the tool alone (no Python, no network).
#
# ASSAY=the tool; DEVICES=n instead of counting; SIZE=tiny for the emulator; PRECISION=bf16.
set -u
export LC_ALL=C
ASSAY=${ASSAY:-$(cd "$(dirname "$0")/../.." && pwd)/assay}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
began=$SECONDS

fail() {
    echo "gpu-smoke: FAILED: $1" >&2
    [ ! -s "$tmp/log" ] || tail -5 "$tmp/log" | sed 's/^/  /' >&2
    exit 1
}
count() { # the GPUs that a run would use
    local n
    if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
        n=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .)
    else # grep -c says 0 and fails where a driver lists none, so what it says is read, not how it ends
        n=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
        [ "$n" -gt 0 ] || n=$(ls /dev/nvidia[0-9]* 2>/dev/null | grep -c .)
    fi
    echo "$n"
}
devices=${DEVICES:-$(count)}
[[ $devices =~ ^[0-9]+$ ]] || fail "DEVICES=$devices is no number of GPUs"
[ "${devices:-0}" -ge 1 ] || fail "no GPU is here (nvidia-smi and /dev/nvidia* show none)"
"$ASSAY" doctor >"$tmp/log" 2>&1
said=$(grep '^cuda' "$tmp/log")
: >"$tmp/log" # doctor's other lines are of other things
grep -q '^cuda .*CUDA [0-9]' <<<"$said" || fail "${said:-the cuda backend does not open}"
echo "$said"

if [ "${SIZE:-}" = tiny ]; then
    docs=60 layers=1 heads=2 width=32 context=32 each=2
else
    docs=20000 layers=12 heads=12 width=768 context=1024 each=8
fi
batch=$((each * devices))
cat >"$tmp/run.ini" <<INI
[model]
layers = $layers
heads = $heads
width = $width
context = $context
[train]
backend = cuda
precision = ${PRECISION:-bf16}
tokens = $((20 * batch * context))
batch = $batch
checkpoint_every = 10
lr = 3e-4
INI
{ "$ASSAY" corpus --out "$tmp/corpus" --docs $docs --seed 1 &&
    "$ASSAY" vocab train --in "$tmp/corpus/docs.jsonl" --size 512 --out "$tmp/vocab.tiktoken" &&
    "$ASSAY" shard --vocab "$tmp/vocab.tiktoken" --in "$tmp/corpus/docs.jsonl" --out "$tmp/shards"; } \
    >"$tmp/log" 2>&1 || fail "no data could be made"

export ASSAY_CUDA_TUNE=separate # chosen, not measured: so that the same steps have the same bits
ranks=
[ "$devices" = 1 ] || ranks="--ranks $devices"
train() { exec "$ASSAY" train --quiet --config "$tmp/run.ini" --shards "$tmp/shards" $ranks "$@" >>"$tmp/log" 2>&1; }
volatile() { sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$tmp/straight/manifest.json" | head -1; }

: >"$tmp/log"
(train --out "$tmp/straight") || fail "20 steps do not train"
rate=$(volatile tokens_per_second) memory=$(volatile memory_most) mfu=$(volatile mfu)
(train --out "$tmp/killed") &
pid=$!
for _ in $(seq 600); do # the checkpoint of step 10 appears whole, by rename
    [ -e "$tmp/killed/latest" ] && break
    kill -0 $pid 2>/dev/null || break
    sleep 0.05
done
# The ranks first: a launcher's end alone would let them save once more.
ranks_of=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
kill -9 $ranks_of $pid 2>/dev/null
wait $pid 2>/dev/null
for p in $ranks_of; do # nobody waits for these; while one still ends, the folder is locked
    for _ in $(seq 200); do
        kill -0 "$p" 2>/dev/null && sleep 0.05 || break
    done
done
[ -e "$tmp/killed/latest" ] || fail "no checkpoint was written"
(train --out "$tmp/killed") || fail "going on from the checkpoint fails"
cmp -s "$tmp/straight/latest/model.safetensors" "$tmp/killed/latest/model.safetensors" ||
    fail "killed at a checkpoint and gone on, the weights differ from a straight run's"
[ -z "$memory" ] || memory=$(awk -v b="$memory" 'BEGIN { printf "%.1f MiB", b / 1048576 }')
echo "gpu-smoke: ok: $devices GPU(s), 20 steps, ${rate%.*} tokens/s, memory ${memory:-unknown}, MFU ${mfu:-unknown}, saved, killed, restored; $((SECONDS - began)) s"
