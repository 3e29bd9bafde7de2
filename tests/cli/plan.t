#!/usr/bin/env bash
# assay plan over many machines, calibrated by measured runs, and scaled to many devices.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
plan() { "$ASSAY" plan --config pipelines/runs/gpt2-163m.ini "$@" > "$tmp/out" 2> "$tmp/err"; }
plan --hardware pipelines/hardware/*.ini --utilisation 0.35
is $? 0 "all machines in one table" || sed 's/^/# /' "$tmp/err"
is "$(grep -c '% assumed$' "$tmp/out")" "$(ls pipelines/hardware/*.ini | wc -l)" "a row each, which says what is assumed"
# 3260268544 tokens x 1034.68 MFLOP / (8 x 312e12 x 0.35) s at 10.32 an hour
ok "8xa100-40: hours and money by hand" grep -qE '^8xa100-40 .* 1\.07 +11\.07 USD +35\.0% assumed' "$tmp/out"
is "$(sed -n '4,7p' "$tmp/out" | grep -oE '[0-9.]+ USD' | sort -nc 2>&1)" "" "the cheapest comes first"
"$ASSAY" result --from pipelines/reference/series.jsonl --out "$tmp/series" --quiet
plan --hardware pipelines/hardware/8xa100-40.ini pipelines/hardware/8xh100-80.ini pipelines/hardware/rtx3090.ini --results "$tmp/series"
ok "measured runs on the same device calibrate it" grep -qE '^8xh100-80 .* 568186 .* 38\.13 USD +7\.4% measured: series-8xh100m80' "$tmp/out"
ok "a median when there are several" grep -qE '^8xa100-40 .* measured: median of 3 runs, nearest series-8xa100m40' "$tmp/out"
ok "a machine nobody measured is by the roofline" grep -qE '^rtx3090 .* roofline$' "$tmp/out"
is "$(grep -c '8xa100-40: 3 of the 34 results in --results count$' "$tmp/err") $(grep -c 'rtx3090: none of the 34 results in --results counts' "$tmp/err")" "1 1" "how many count is said, for each machine" || sed 's/^/# /' "$tmp/err"
"$ASSAY" plan --config pipelines/runs/gpt2-163m.ini --hardware pipelines/hardware/8xb200-160.ini --set train.precision=fp32 --results "$tmp/series" > "$tmp/out" 2> "$tmp/err"
is "$? $(grep -c 'none of the 34 results in --results counts: none is of .* at fp32, within' "$tmp/err")" "0 1" "where no result counts it says why" || sed 's/^/# /' "$tmp/err"
# llm.c's published steps on 8 A100 of 80 GB, 524,288 tokens in bf16: 124M 300 ms, 350M 820 ms, 774M 1.7 s
step() { plan --hardware pipelines/hardware/8xa100-80.ini --set model.tied=true --set model.qkv_bias=true --set model.dropout=0 --set train.precision=bf16 \
    --set train.batch=512 --set model.layers="$1" --set model.heads="$2" --set model.width="$3" && sed -n 's/^roofline .* a step of \([0-9.]*\) ms.*/\1/p' "$tmp/out"; }
steps="$(step 12 12 768) $(step 24 16 1024) $(step 36 20 1280)"
ok "the roofline is within a tenth of three published steps: $steps ms" awk -v s="$steps" 'BEGIN { split(s, v); exit !(v[1]/300 > .9 && v[1]/300 < 1.1 && v[2]/820 > .9 && v[2]/820 < 1.1 && v[3]/1700 > .9 && v[3]/1700 < 1.1) }'
h100() { plan --hardware pipelines/hardware/8xh100-80.ini --set model.tied=true --set model.qkv_bias=true --set model.dropout=0 --set train.precision=bf16 --set train.zero=1 \
    --set train.batch="$1" --set model.layers="$2" --set model.heads="$3" --set model.width="$4" && sed -n 's/^roofline .* a step of \([0-9.]*\) ms.*/\1/p' "$tmp/out"; }
steps="$(h100 512 12 12 768) $(h100 1024 48 25 1600)" # published: 124M 140.2 ms, 1,558M 2.8 s
ok "and of two on 8 H100: $steps ms" awk -v s="$steps" 'BEGIN { split(s, v); exit !(v[1]/140.2 > .9 && v[1]/140.2 < 1.1 && v[2]/2804 > .9 && v[2]/2804 < 1.1) }'
is "$(grep -c "TFLOP at the hardware file's 50% of 989" "$tmp/out")" 1 "by the share that the hardware file states"
plan --hardware pipelines/hardware/8xh100-80.ini --matrix-share 0.6
is "$(grep -c 'TFLOP at an assumed 60% of 989' "$tmp/out")" 1 "which an option overrides"
step 36 20 1280 >"$tmp/step" # again, for what it printed
parts=$(tr '\n' ' ' < "$tmp/out" | sed 's/.*a step of \([0-9.]*\) ms: products \([0-9.]*\) ms (\([0-9.]*\) TFLOP at an assumed 70% of 312 TFLOP.s) *+ memory \([0-9.]*\) ms (\([0-9.]*\) GB at an assumed 85% of 2000 GB.s) + sums over devices \([0-9.]*\) ms.*/\1 \2 \3 \4 \5 \6/')
ok "and is the sum of its parts, each of what is printed: $parts" awk -v s="$parts" 'function near(a, b) { return a / b > .999 && a / b < 1.001 }
    BEGIN { n = split(s, v); exit !(n == 6 && near(v[1], v[2] + v[4] + v[6]) && near(v[2], v[3] / 312 / .7 * 1e3) && near(v[4], v[5] / 2000 / .85 * 1e3)) }'
plan --hardware pipelines/hardware/8xa100-80.ini --set train.ranks=2
is "$(sed -n 's/^machine .*; //p' "$tmp/out") $(grep -c 'of 2 x 312 TFLOP' "$tmp/out") $(sed -n 's/^micro-batch  *//p' "$tmp/out")" "2 used (train.ranks) 1 52, 1 pass a step on each device" "two ranks are two devices, with half of the batch each"
plan --hardware pipelines/hardware/8xa100-80.ini --set train.ranks=16
is "$(grep -c 'train.ranks = 16, 8xa100-80 has 8: planned for these' "$tmp/err")" 1 "more ranks than devices: it says so"
plan --hardware pipelines/hardware/rtx3090.ini --set train.micro_batch=100
is "$(grep -c 'train.micro_batch = 100 does not fit on a device of rtx3090, where train would stop: planned with 62' "$tmp/err") $(grep -c '^micro-batch  62,' "$tmp/out")" "1 1" "a micro-batch that does not fit is not changed in silence"
sed 's/^bandwidth_gbs.*//' pipelines/hardware/rtx3090.ini > "$tmp/slow.ini"
plan --hardware "$tmp/slow.ini"
is "$(grep -c 'assuming 35% of 1 x 71' "$tmp/out") $(grep -c 'roofline  *unknown: hardware.bandwidth_gbs is not set' "$tmp/out")" "1 1" "without a bandwidth a flat share is assumed"
plan --hardware pipelines/hardware/8xa100-40.ini
rate=$(sed -n 's/^time .* at \([0-9]*\) tokens.*/\1/p' "$tmp/out")
plan --hardware pipelines/hardware/8xa100-40.ini --scale
is "$(awk '$1 == 8 && NF > 8 { print $7 }' "$tmp/out")" "$rate" "the table's row of the whole machine is the plan's"
own=$(for r in 1 2 4 8; do "$ASSAY" plan --config pipelines/runs/gpt2-163m.ini --hardware pipelines/hardware/8xa100-40.ini --set train.ranks=$r; done | sed -n 's/^time .* at \([0-9]*\) tokens.*/\1/p' | tr '\n' ' ')
is "$(awk '$1 ~ /^[1248]$/ && NF > 8 { printf "%s ", $7 }' "$tmp/out")" "$own" "and those of fewer devices are the plans of as many ranks"
"$ASSAY" plan --config pipelines/runs/gpt2-163m.ini --hardware pipelines/hardware/8xa100-40.ini --scale --tokens-per-s 700000 > "$tmp/given" 2>&1
is "$(awk '$1 == 8 && NF > 8 { print $7 }' "$tmp/given")" 700000 "a rate that was measured is that of its own devices' row"
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
layer() { "$ASSAY" plan --config pipelines/runs/gpt2-163m.ini --hardware pipelines/hardware/rtx3090.ini --utilisation 0.35 --set train.batch=512 --set "train.recompute=$1" 2>/dev/null; }
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
plan --hardware pipelines/hardware/8xa100-40.ini --set train.backend=cpu --set train.precision=fp16
is "$? $(cat "$tmp/err" | head -1)" "2 plan: train.precision: precision fp16: the cpu backend (train.backend) computes in fp32 only" "a precision that train refuses on a CPU is not planned"
plan --hardware pipelines/hardware/8xa100-40.ini --set train.backend=cpu --set train.precision=fp32
is "$? $(grep -c 'hardware file 8xa100-40 is of 8 x A100 40GB SXM4 (backend = cuda), the run.s train.backend is cpu' "$tmp/err")" "2 1" "nor a run for the CPU on GPUs"
plan --hardware pipelines/hardware/8xa100-40.ini --set train.precision=fp32 --set train.stochastic_rounding=true
is $? 2 "nor options that do not go together"
plan --hardware pipelines/hardware/8xa100-40.ini --set model.heads=2
is "$? $(cat "$tmp/out") $(head -1 "$tmp/err")" "2  plan: model.heads = 2 of model.width = 768: heads of 384, on cuda there may be 256; take more heads" "nor heads that no kernel takes"
plan --hardware pipelines/hardware/8xa100-40.ini --set model.heads=64 --set model.width=8192
is "$? $(head -1 "$tmp/err")" "2 plan: model.width = 8192, on cuda there may be 6144" "nor rows"
plan --hardware pipelines/hardware/8xa100-40.ini --set model.heads=3
is $? 0 "heads of 256 are"
sed -e 's/^backend.*/backend = cpu/' -e 's/^name.*/name = host/' pipelines/hardware/8xa100-40.ini > "$tmp/host.ini"
plan --hardware "$tmp/host.ini" --set train.backend=auto --set train.precision=fp16
is "$? $(head -1 "$tmp/err")" "2 plan: train.precision: precision fp16: the cpu backend (hardware file host) computes in fp32 only" "a hardware file of a CPU is planned as one"
plan --hardware "$tmp/host.ini" --set train.backend=auto --set train.precision=fp32 --set model.heads=2
is "$? $(grep -c 'in fp32 on cpu' "$tmp/out")" "0 1" "where such heads may be" || cat "$tmp/err"
plan --hardware "$tmp/host.ini" pipelines/hardware/8xa100-40.ini --set train.backend=cuda
is "$? $(grep -c '^8xa100-40 .* USD ' "$tmp/out") $(grep -c '^host  *refused: hardware file host is of .* (backend = cpu), the run.s train.backend is cuda' "$tmp/out") $(grep -c '^host' "$tmp/out")" "0 1 1 1" "of several machines one is refused, not the table"
plan --hardware "$tmp/host.ini" "$tmp/host.ini" --set train.backend=cuda
is "$? $(cat "$tmp/out")" "2 " "unless all are"
"$ASSAY" plan --config pipelines/runs/demo-base-1.ini --set train.precision=bf16 --hardware pipelines/hardware/8xa100-40.ini --set train.backend=auto > "$tmp/out" 2>&1
ok "small runs have hours and money with digits: $(sed -n 's/^\(time\|money\)  *\([0-9.]* [hU]\).*/\2/p' "$tmp/out" | tr '\n' ' ')" awk '/^time/ || /^money/ { n += $2 > 0 && $2 < 0.01 && $2 ~ /[1-9][0-9][0-9]$/ } END { exit n != 2 }' "$tmp/out"
sed -e '/^price_source/d' -e '/^price_date/d' pipelines/hardware/8xa100-40.ini > "$tmp/unsourced.ini"
plan --hardware "$tmp/unsourced.ini"
is "$(sed -n 's/^money .* an hour \(([^)]*)\),.*/\1/p' "$tmp/out")" "(no source stated)" "a price without a source says so"
is "$(grep -c "\\\\'" pipelines/hardware/*.ini | grep -vc ':0$')" 0 "no shell's quoting was left in a hardware file"
done_testing
