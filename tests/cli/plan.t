#!/usr/bin/env bash
# assay plan over many machines, calibrated by measured runs, and scaled to many devices.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
plan() { "$ASSAY" plan --config pipelines/runs/gpt2-163m.ini "$@" > "$tmp/out" 2> "$tmp/err"; }
plan --hardware pipelines/hardware/*.ini
is $? 0 "all machines in one table" || sed 's/^/# /' "$tmp/err"
is "$(grep -c '% assumed$' "$tmp/out")" "$(ls pipelines/hardware/*.ini | wc -l)" "a row each, which says what is assumed"
# 3260268544 tokens x 1034.68 MFLOP / (8 x 312e12 x 0.35) s at 10.32 an hour
ok "8xa100-40: hours and money by hand" grep -qE '^8xa100-40 .* 1\.07 +11\.07 USD +35\.0% assumed' "$tmp/out"
is "$(sed -n '4,7p' "$tmp/out" | grep -oE '[0-9.]+ USD' | sort -nc 2>&1)" "" "the cheapest comes first"
"$ASSAY" result --from pipelines/reference/series.jsonl --out "$tmp/series" --quiet
plan --hardware pipelines/hardware/8xa100-40.ini pipelines/hardware/8xh100-80.ini pipelines/hardware/rtx3090.ini --results "$tmp/series"
ok "measured runs on the same device calibrate it" grep -qE '^8xh100-80 .* 568186 .* 38\.13 USD +7\.4% measured: series-8xh100m80' "$tmp/out"
ok "a median when there are several" grep -qE '^8xa100-40 .* measured: median of 3 runs, nearest series-8xa100m40' "$tmp/out"
ok "a machine nobody measured stays assumed" grep -qE '^rtx3090 .* assumed' "$tmp/out"
"$ASSAY" plan --config pipelines/runs/gpt2-163m.ini --hardware pipelines/hardware/8xb200-160.ini --set train.precision=fp32 --results "$tmp/series" > "$tmp/out" 2> "$tmp/err"
is "$? $(grep -c 'none of the 34 results in --results counts: none is of .* at fp32, within' "$tmp/err")" "0 1" "where no result counts it says why" || sed 's/^/# /' "$tmp/err"
plan --hardware pipelines/hardware/8xa100-40.ini --scale
ok "a scaling table from 1" grep -qE '^ +1 +104 .* 100\.0%' "$tmp/out"
ok "to 1,024 devices" grep -qE '^ +1024 +1 ' "$tmp/out"
ok "with its assumptions" grep -q '300 GB/s and 5 us (assumed) inside' "$tmp/out"
ok "recomputation: what fits" grep -qE 'largest +none 13 +gelu 13 +layer 13' "$tmp/out"
plan --hardware pipelines/hardware/*.ini
is "$(grep -cE '^[0-9a-z-]+ +[0-9]+ +[0-9]+ / [0-9]+ / [0-9]+ +[0-9]+ / [0-9]+ / [0-9]+$' "$tmp/out")" "$(ls pipelines/hardware/*.ini | wc -l)" \
    "what fits on a device of each machine, by precision and recomputation"
plan --hardware pipelines/hardware/8xa100-40.ini --set train.precision=fp32
ok "fp32 has its own peak and no copy of the weights" grep -qE 'of 8 x 19.5 TFLOP/s' "$tmp/out"
is "$(grep -c 'their copy' "$tmp/out")" 0 "fp32 keeps no copy of the weights"
plan --hardware pipelines/hardware/8xa100-40.ini --set train.zero=1
ok "zero: a device keeps an eighth of the moments" grep -qE 'moments 155 MiB' "$tmp/out" || sed -n 5,7p "$tmp/out" | sed 's/^/# /'
layer() { "$ASSAY" plan --config pipelines/runs/gpt2-163m.ini --hardware pipelines/hardware/rtx3090.ini --set train.batch=512 --set "train.recompute=$1" 2>/dev/null; }
is "$(layer layer | sed -n 's/^micro-batch  *\([0-9]*\), .*/\1/p')" "$(layer none | sed -n 's/^  largest .* layer \([0-9]*\) .*/\1/p')" "a run that recomputes takes what then fits"
rate() { layer "$1" | sed -n 's/.* at \([0-9]*\) tokens.*/\1/p'; }
ok "and is slower by its 18% more work" awk -v a="$(rate none)" -v b="$(rate layer)" 'BEGIN { exit !(a / b > 1.175 && a / b < 1.185) }'
plan --hardware pipelines/hardware/rtx3090.ini --set train.batch=512
ok "recomputing a layer fits more" grep -qE 'largest +none 62 +gelu 79 +layer 3[0-9][0-9]' "$tmp/out" || grep largest "$tmp/out" | sed 's/^/# /'
sed 's/^memory_gib.*/memory_gib = 2/' pipelines/hardware/rtx3090.ini > "$tmp/small.ini"
plan --hardware "$tmp/small.ini" pipelines/hardware/rtx3090.ini
is "$? $(grep -c 'does not fit' "$tmp/out")" "0 1" "one machine that is too small is a row"
plan --hardware "$tmp/small.ini" "$tmp/small.ini"
is $? 1 "all too small is a failure"
plan --hardware "$tmp/small.ini" --scale
is "$? $(grep -cE '[0-9] h at|USD|of linear' "$tmp/out") $(grep -c 'it does not fit$' "$tmp/out")" "1 0 1" "where it does not fit there are no hours and no money" || sed 's/^/# /' "$tmp/out"
plan --hardware pipelines/hardware/rtx3090.ini --results "$tmp/nothing"
is $? 1 "results that are not there are an error"
sed '/^peak_fp32/d' pipelines/hardware/8xa100-40.ini > "$tmp/nopeak.ini"
plan --hardware "$tmp/nopeak.ini" --set train.precision=fp32
is "$(sed -n 's/^time  *//p' "$tmp/out")" "unknown: neither hardware.peak_fp32 nor --tokens-per-s is set" "fp32 is not timed at another precision's peak"
plan --hardware "$tmp/nopeak.ini" pipelines/hardware/8xh100-80.ini --set train.precision=fp32
is "$(grep -c '^8xa100-40 .*unknown: hardware.peak_fp32 is not set' "$tmp/out")" 1 "in the table neither"
is "$(grep -c "\\\\'" pipelines/hardware/*.ini | grep -vc ':0$')" 0 "no shell's quoting was left in a hardware file"
done_testing
