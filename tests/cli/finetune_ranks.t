#!/usr/bin/env bash
# Fine-tuning on several ranks: the same batches in the same order whatever their number, a loss that is
# the mean over all answer tokens of a batch and never a mean of ranks; precision, overflow and several
# GPUs on emulated devices; what happens when one differs, dies, is told to stop or meets no number.
set -u
. tests/cli/tap.sh
BUILD=$(cd "$BUILD" && pwd)
tmp=$(mktemp -d)
trap '[ $BASHPID = $$ ] && rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
export OMP_NUM_THREADS=1
has() { # file, pattern, name
    grep -q -- "$2" "$1"
    result $? "$3" || sed 's/^/# /' "$1" | head -20
}
# Answers of one word beside answers of forty: ranks have very different numbers of targets. Only the
# prompt of the last training item has a "#".
perl -MJSON::PP -e '
    sub items { my ($name, $n, $seed, $last) = @_;
        open my $f, ">", $name or die;
        for my $i (1 .. $n) { my @w = map { $seed = ($seed * 1103515245 + 12345) % 2147483648; chr(97 + ($seed >> 16) % 20) } 1 .. 45;
            my $words = $i % 3 == 0 ? 40 : 1 + $i % 2;
            my $mark = $last && $i == $n ? "# " : "";
            print $f encode_json({id => "$i", instruction => $mark . join(" ", @w[0 .. 3]), output => join(" ", @w[4 .. 3 + $words])}), "\n"; } }
    items("train.jsonl", 21, 1, 1); items("val.jsonl", 7, 2, 0); items("other.jsonl", 21, 3, 1);
    open my $f, ">", "text.txt"; print $f join(" ", map { chr(97 + $_ * 7 % 20) } 1 .. 3000), " #\n";'
cat >run.ini <<INI
[model]
layers = 2
heads = 2
width = 32
context = 128
tied = false
dropout = 0.1
[train]
backend = cpu
threads = 1
tokens = 2048
batch = 4
lr = 1e-2
[finetune]
lr = 3e-3
epochs = 4
batch = 5
patience = 4
template = plain
INI
{ "$ASSAY" vocab train --in text.txt --size 270 --out v.tiktoken &&
    "$ASSAY" shard --vocab v.tiktoken --in text.txt --test text.txt --out shards &&
    for x in train other; do "$ASSAY" shard --instruct --vocab v.tiktoken --in $x.jsonl --val val.jsonl --template plain --out examples-$x; done &&
    "$ASSAY" train --quiet --config run.ini --shards shards --out base; } >log 2>&1 || sed 's/^/# /' log
tune() { (alone "$@"); }
alone() { local out=$1; shift; exec "$ASSAY" finetune --quiet --config run.ini --init "${INIT:-base/latest}" --examples "${EXAMPLES:-examples-train}" --out "$out" "$@"; }
near() { # folders, bound: losses, norms and validation losses of all steps; the best epoch
    perl -MJSON::PP -e '
        my $bound = pop; my @r = map { open my $f, "<", "$_/metrics.jsonl" or die; [map { decode_json($_) } <$f>] } @ARGV;
        die "steps\n" if @{$r[0]} != @{$r[1]} || @{$r[0]} < 20;
        for my $i (0 .. $#{$r[0]}) { die "tokens\n" if $r[0][$i]{tokens} != $r[1][$i]{tokens};
            for my $k (qw(loss norm val_loss)) {
            my ($x, $y) = map { $_->[$i]{$k} } @r; next if !defined $x && !defined $y;
            my $d = abs($x - $y) / (abs($x) + 1e-9); my $w = $k eq "norm" ? \$norm : \$loss;
            $$w = $d if $d > $$w; } }
        my @m = map { local $/; open my $f, "<", "$_/manifest.json" or die; decode_json(<$f>)->{facts}{best_epoch} } @ARGV;
        printf "# %s and %s: largest relative difference of a loss %.1e, of a norm %.1e, over %d steps; best epoch %d\n", @ARGV, $loss, $norm, scalar @{$r[0]}, $m[0];
        exit($loss > $bound || $norm > 10 * $bound || $m[0] != $m[1]);' "$1" "$2" "$3"
}
same() { cmp -s "$1/latest/model.safetensors" "$2/latest/model.safetensors"; }

# ---- the same fine-tuning ----
tune one && tune two --ranks 2 && tune three --ranks 3
is $? 0 "one, two and three ranks"
near one two 1e-5
result $? "two ranks have one's losses, norms, targets, validation losses and best epoch"
near one three 1e-5
result $? "so have three, which cut a batch of 5 unevenly"
has two/manifest.json '"ranks": *2' "the manifest says how many"
has two/metrics.jsonl '"ms_comm":' "the journal says how long they stood still for each other"
tune seven --ranks 7 && near one seven 1e-5
result $? "more ranks than examples in a batch: the idle ones do no harm"
tune zero --ranks 2 --set train.zero=1 && same two zero
result $? "ZeRO-1: the same bytes"
tune filed --set train.ranks=2 && same two filed
result $? "train.ranks of the run file starts them as well"
tune thin --ranks 2 --set finetune.micro_batch=1 && near two thin 1e-6
result $? "one example at once"
tune layer --set train.recompute=layer && same one layer
result $? "what is computed again changes no bit"
"$ASSAY" finetune --config run.ini --init base/latest --examples examples-train --out two --ranks 2 2>err.txt
has err.txt "up to date" "again: up to date"
tune two && same two filed
result $? "the number of ranks is no part of the key"

# ---- other ways to start ----
for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 ASSAY_RENDEZVOUS=$tmp/meet tune byfile & done
wait && same two byfile
result $? "RANK, WORLD_SIZE and a file: the same bytes"
for r in 0 1; do
    SLURM_PROCID=$r SLURM_LOCALID=$r SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=$$ SLURM_STEP_ID=1 \
        SLURM_STEP_NODELIST=localhost tune byslurm &
done
wait && same two byslurm
result $? "the variables of srun: the same bytes"
if [ -e "$BUILD/libassay_mpi.so" ] && command -v mpirun >/dev/null; then
    ASAN_OPTIONS=detect_leaks=0 mpirun --allow-run-as-root --oversubscribe -n 2 "$ASSAY" finetune --quiet --config run.ini \
        --init base/latest --examples examples-train --out bympi --set train.comm=mpi >out.txt 2>&1 && same two bympi
    result $? "mpirun -n 2 with MPI's messages: the same bytes" || sed 's/^/# /' out.txt
else
    skip "mpirun: Open MPI is not here (make deps MPI=1)"
fi

# ---- ends ----
ranks_of() { ps -o pid= --ppid "$1" | sort -n | tr -d ' '; }
begun() { # folder: waits for its first steps
    while [ ! -s "$1/metrics.jsonl" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
}
alone cut --ranks 3 --set finetune.epochs=4000 --set finetune.patience=4000 2>err.txt &
pid=$!
begun cut
kill -USR1 "$(ranks_of $pid | tail -1)"
wait $pid
is "$? $(grep -c 'interrupted in epoch [0-9]*; run it again' err.txt)" "4 1" "SIGUSR1 to the last rank alone is agreed by all: $(tail -1 err.txt)"
[ ! -e cut/manifest.json ] && tune cut && near one cut 1e-5
result $? "what three ranks began one makes from the start, to its own end"
alone dead --ranks 3 --set finetune.epochs=4000 --set finetune.patience=4000 2>err.txt &
pid=$!
begun dead
kill -KILL "$(ranks_of $pid | tail -1)"
wait $pid
is "$? $(grep -c "rank 2 on $(hostname) was killed by signal 9" err.txt)" "1 1" "a rank that dies ends all and is named"
has dead/failed.json "\"sentence\": *\"rank 2 on $(hostname) was killed by signal 9" "failed.json names it as well"
has dead/failed.json '"step": *[1-9]' "and the step"
pair() { # text, name, what rank 1 has in its environment, its arguments
    rm -rf dead meet
    RANK=0 WORLD_SIZE=2 ASSAY_RENDEZVOUS=$tmp/meet tune dead 2>err0.txt &
    (export "$3" && RANK=1 WORLD_SIZE=2 ASSAY_RENDEZVOUS=$tmp/meet tune dead "${@:4}" 2>err1.txt)
    local one=$? zero
    wait $!
    zero=$?
    [ $one -ne 0 ] && [ $zero -ne 0 ] && grep -q -- "$1" err0.txt && [ ! -s err1.txt ] && [ ! -e dead ]
    result $? "$2: $(cat err0.txt)" || sed 's/^/# /' err1.txt
}
pair "rank 1 on $(hostname).*lr = 0.02 here, but 0.003 on rank 0" "another option on rank 1" A=1 --set finetune.lr=0.02
pair "rank 1 on $(hostname).*hash of --examples = [0-9a-f]* here, but [0-9a-f]* on rank 0" "other examples on rank 1" EXAMPLES=examples-other
pair "rank 1 on $(hostname).*missing" "examples that rank 1 has not" EXAMPLES=missing

# A weight that is no number, met by one rank only: the row of "#" in the embedding, which one prompt has.
cp -rL base/latest broken
rm -f broken/manifest.json # it would say that the file was written over
id=$(printf '#' | "$ASSAY" encode --vocab v.tiktoken | tr -d '[]\n ')
python3 - "$id" <<'PY'
import json, struct, sys
b = bytearray(open("broken/model.safetensors", "rb").read())
n = struct.unpack("<Q", b[:8])[0]
t = next(v for k, v in json.loads(b[8:8 + n]).items() if k.endswith("wte.weight"))
width = t["shape"][1]
struct.pack_into("<f", b, 8 + n + t["data_offsets"][0] + int(sys.argv[1]) * width * 4, float("nan"))
open("broken/model.safetensors", "wb").write(b)
PY
for r in 1 2 3; do
    INIT=broken tune nan$r --ranks $r 2>err$r.txt
    is "$? $(wc -l <err$r.txt)" "1 1" "a weight that is no number, in one example of one rank, ends $r: $(cat err$r.txt)"
done
is "$(cat err2.txt)" "$(cat err1.txt)" "two ranks stop at the step at which one does, and say the same"
is "$(cat err3.txt)" "$(cat err1.txt)" "and three"
[ ! -e nan2/checkpoint ] && [ ! -e nan2/manifest.json ]
result $? "nothing is written"

# ---- precision: on the CPU none but fp32, on emulated devices all ----
tune refused --set finetune.precision=fp16 2>err.txt
is "$? $(grep -c 'finetune.precision: precision fp16: the cpu backend computes in fp32 only' err.txt)" "2 1" "the CPU refuses fp16: $(cat err.txt)"
if [ ! -f "$BUILD/cudaemu/libassay_cuda.so" ]; then
    skip "NVIDIA's headers (cuda_runtime.h, cublasLt.h)"
    done_testing
fi
export ASSAY_LIBDIR=$BUILD/cudaemu ASSAY_CUDA_TUNE=separate CUEMU_DEVICES=2
gpu() { local out=$1; shift; tune "$out" --backend cuda --set finetune.epochs=4 "$@"; }
gpu gpu1 && near one gpu1 1e-5
result $? "one device has the losses of the CPU"
gpu gpu2 --ranks 2 && near one gpu2 1e-5
result $? "so have two"
has gpu2/manifest.json '"comm": *"nccl"' "through NCCL"
gpu gpuz --ranks 2 --set train.zero=1 && same gpu2 gpuz
result $? "ZeRO-1 on two devices: the same bytes"
for p in tf32 bf16 fp16; do
    gpu $p --ranks 2 --set finetune.precision=$p && near one $p 2e-3
    result $? "$p on two devices: near the losses in fp32"
    gpu ${p}1 --set finetune.precision=$p && near ${p}1 $p 2e-3
    result $? "and near those of one device"
done
! same gpu2 bf16
result $? "another precision is another fine-tuning"
is "$(grep -c '"loss_scale":65536' fp16/metrics.jsonl)" "$(wc -l <fp16/metrics.jsonl)" "fp16 scales its loss"
gpu grown --ranks 2 --set finetune.precision=fp16 --set train.loss_scale_every=1 2>err.txt
is "$? $(grep -o '"overflows": *[1-9]' grown/manifest.json | wc -l)" "0 1" "a scale that grows too far leaves steps out on both, and counts them" || cat err.txt
is "$(grep -c '"overflow":true' grown/metrics.jsonl)" "$(grep -o '"overflows": *[0-9]*' grown/manifest.json | grep -o '[0-9]*$')" "the manifest has as many as the journal"
printf '%s\n' '[hardware]' 'name = two' 'device = D' 'count = 2' 'memory_gib = 4' 'peak_tflops = 10' 'price_hour = 3' >two.ini
gpu byhw --hardware two.ini && same gpu2 byhw
result $? "a hardware file of two GPUs that are here: two ranks"

# A rank that stops: the other one hangs in its device, so its own thread ends it, and the launcher then
# waits for no rank that is stopped.
ASSAY_RANK_SILENCE=5 alone stopped --ranks 2 --backend cuda --set finetune.epochs=4000 --set finetune.patience=4000 2>err.txt &
pid=$!
begun stopped
v=($(ranks_of $pid))
kill -STOP "${v[1]}"
while kill -0 "${v[0]}" 2>/dev/null && ! grep -q '^[0-9]* (.*) Z' "/proc/${v[0]}/stat" 2>/dev/null; do sleep 0.05; done
ended=$(date +%s%N)
wait $pid
is "$? $(cat err.txt)" "1 finetune: rank 1 on $(hostname): no sign of life for 5 s" "a rank that stops ends both, by name"
ok "at once when the other one has ended" test $(($(date +%s%N) - ended)) -lt 3000000000
has stopped/failed.json "\"sentence\": *\"rank 1 on $(hostname): no sign of life for 5 s" "and failed.json says it"
done_testing
