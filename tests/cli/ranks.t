#!/usr/bin/env bash
# Many ranks: assay train --ranks, mpirun, RANK and WORLD_SIZE, Slurm's variables; the same training on
# any number of them; what happens when one dies, stops, differs or never comes.
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/chain.sh"
BUILD=$(cd "$BUILD" && pwd)
tmp=$(mktemp -d)
trap '[ $BASHPID = $$ ] && rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
export OMP_NUM_THREADS=1

chain_shards shards 9000 900
chain_shards other 9000 900 3
cat >run.ini <<EOT
[model]
layers = 2
heads = 2
width = 48
context = 64
vocab = 61
dropout = 0.1
qkv_bias = false
[train]
tokens = 20480
batch = 8
lr = 1e-2
checkpoint_every = 10
keep = 2
threads = 1
backend = cpu
val_every = 20
EOT
train() { local out=$1; shift; "$ASSAY" train --quiet --config run.ini --shards shards --out "$out" "$@"; }
# Children of a process, in the order in which they were started: ranks of a launcher.
ranks_of() { ps -o pid= --ppid "$1" | sort -n | tr -d ' '; }

# ---- the same training ----
train one
is $? 0 "one rank"
train two --ranks 2 && train three --ranks 3
is $? 0 "two and three ranks"
near one two
result $? "two ranks have the losses and norms of one"
near one three
result $? "so have three, which cut a batch of 8 unevenly"
has two/manifest.json '"ranks": *2' "the manifest says how many"
has two/metrics.jsonl '"ms_comm":' "the journal says how long they stood still for each other"
has two/manifest.json '"comm_share":' "and the manifest which share that is"
train zero2 --ranks 2 --set train.zero=1 && same two zero2
result $? "ZeRO-1 on two ranks: the same bytes"
train zero3 --ranks 3 --set train.zero=1 && same three zero3
result $? "ZeRO-1 on three: the same bytes"
train many --ranks 5 --set train.batch=3 --set train.tokens=3840 && train few --set train.batch=3 --set train.tokens=3840 && near few many
result $? "more ranks than sequences: the idle ones do no harm"
train filed --set train.ranks=2 && same two filed
result $? "train.ranks of the run file starts them as well"
"$ASSAY" train --verbose --config run.ini --shards shards --out loud --ranks 3 --set train.val_every=0 2>err.txt
is "$(grep -c 'equal weights on 3 ranks' err.txt)" 4 "at each checkpoint the weights of all ranks are compared"
has err.txt "\([1-9][0-9]*\) of \1 buckets of gradients go while backward runs" "no bucket waits for the end of the backward pass"
is "$(grep -c 'parameters' err.txt)" 1 "and only rank 0 speaks"
is "$(sed -n 's/.*this rank took \([0-9]*\) tokens.*/\1/p' err.txt)" $((40 * 2 * 65)) "rank 0 has read its two of the eight sequences of a step, and no other's"

# Updates that are skipped, and losses that are no numbers: decided alike on all ranks, or their weights
# would differ at the next checkpoint.
tight="--set train.spike_z=0.001 --set train.max_skips=4000 --set train.tokens=204800 --set train.warmup=0 --set train.schedule=constant --set train.lr=3e-2 --set train.val_every=0"
train skip3 --ranks 3 $tight && grep -q '"skipped":true' skip3/metrics.jsonl
result $? "$(grep -c '"skipped":true' skip3/metrics.jsonl) of 400 updates are skipped on three ranks, which stay equal"
wild="--set train.lr=10 --set train.clip=0 --set train.eps=0 --set train.weight_decay=10 --set train.schedule=constant"
train wild $wild 2>err1.txt
train wild2 --ranks 2 $wild 2>err2.txt
is "$? $(wc -l <err2.txt) $(grep -o 'step [0-9]*' err2.txt)" "1 1 $(grep -o 'step [0-9]*' err1.txt)" "a loss that is no number ends two ranks at one rank's step, in one sentence"

# One rank alone meets no number: id 60 is in one sequence, the sixth of step 15, and from step 10 on its
# row of the embedding is so large that a sum of it overflows. Skipped or ended on all, as on one rank.
perl -e '
    sub shard { my ($name, $n, $seed) = @_;
        open my $f, ">:raw", $name or die; my ($x, @t) = (0);
        for (0 .. $n - 1) { $seed = ($seed * 1103515245 + 12345) % 2147483648;
            $x = ($x * 5 + 1 + 7 * (($seed >> 16) & 1)) % 59; push @t, $_ == (14 * 8 + 5) * 64 + 30 ? 60 : $x; }
        print $f pack("V256", 20240520, 1, $n, (0) x 253), pack("v*", @t); }
    mkdir "rare"; shard("rare/c_train_000000.bin", 13000, 1); shard("rare/c_val_000000.bin", 900, 2);'
rare="--set model.tied=false --set train.shuffle=false --set train.val_every=0 --set train.tokens=10240"
on_rare() { local out=$1; shift; "$ASSAY" train --quiet --config run.ini --shards rare --out "$out" $rare "$@"; }
plant() { # folder: its newest checkpoint
    python3 - "$1/latest/model.safetensors" <<'PY'
import json, struct, sys
b = bytearray(open(sys.argv[1], "rb").read())
n = struct.unpack("<Q", b[:8])[0]
t = next(v for k, v in json.loads(b[8:8 + n]).items() if k.endswith("wte.weight"))
width = t["shape"][1]
struct.pack_into("<%df" % width, b, 8 + n + t["data_offsets"][0] + 60 * width * 4, *[3e38] * width)
open(sys.argv[1], "wb").write(b)
PY
}
on_rare rare0 --set train.spike_z=1000 && on_rare stop0
rm -rf rare0/step-00000020 rare0/manifest.json stop0/step-00000020 stop0/manifest.json
ln -sfn step-00000010 rare0/latest && ln -sfn step-00000010 stop0/latest
plant rare0 && plant stop0
for r in 1 2 3; do
    cp -r rare0 rare$r && cp -r stop0 stop$r
    on_rare rare$r --resume --ranks $r --set train.spike_z=1000
    is "$? $(grep -n '"skipped":true' rare$r/metrics.jsonl | cut -d: -f1 | tr '\n' ' ')" "0 15 " "$r ranks leave out the step in which one met no number, go on and stay equal"
    on_rare stop$r --resume --ranks $r 2>err$r.txt
    is "$? $(wc -l <err$r.txt) $(grep -c 'step 15: the loss is nan' err$r.txt) $(readlink stop$r/latest)" "1 1 1 step-00000010" "without spike_z $r end there, in one sentence"
done
near rare1 rare2 && near rare1 rare3
result $? "with the losses of one rank"

# ---- resume on other numbers ----
cut_at() { # folder, arguments: trains until another checkpoint is there, then SIGTERM
    local out=$1 pid was
    shift
    was=$(readlink "$out/latest")
    "$ASSAY" train --quiet --config run.ini --shards shards --out "$out" "$@" 2>err.txt &
    pid=$!
    while [ "$(readlink "$out/latest")" = "$was" ] && kill -0 $pid 2>/dev/null; do sleep 0.02; done
    kill -TERM $pid
    wait $pid
}
slow="--set train.tokens=102400 --set train.val_every=0"
train long1 $slow && train long2 --ranks 2 $slow
cut_at r21 --ranks 2 $slow
is $? 4 "SIGTERM to the launcher ends two ranks with status 4"
has err.txt "interrupted at step" "which says where"
[ -s r21/latest/state.msgpack ] && [ ! -e r21/manifest.json ]
result $? "behind a whole checkpoint"
cp -r r21 r22
train r21 --resume $slow && near long1 r21
result $? "a checkpoint of two ranks goes on with one"
train r22 --ranks 2 --resume $slow && same long2 r22
result $? "and with two, to the same bytes as a straight run"
cut_at r12 $slow
cp -r r12 r13
train r12 --ranks 2 --resume $slow --set train.zero=1 && near long1 r12
result $? "one of one rank goes on with two, ZeRO-1"
cut_at r13 --ranks 3 $slow --set train.zero=1
train r13 --ranks 2 --resume $slow && near long1 r13
result $? "one, then three with ZeRO-1, then two without"
"$ASSAY" train --quiet --config run.ini --shards shards --out usr --ranks 3 $slow 2>err.txt &
pid=$!
wait_for usr/latest $pid
kill -USR1 "$(ranks_of $pid | tail -1)"
wait $pid
is $? 4 "SIGUSR1 to the last rank alone is agreed by all"
[ -s usr/latest/state.msgpack ] && train usr --ranks 3 --resume $slow && near long1 usr
result $? "and the run goes on"

# ---- ends ----
export ASSAY_RANK_SILENCE=1
ends() { # signal, which child (1: rank 0), text, name
    rm -rf dead
    "$ASSAY" train --quiet --config run.ini --shards shards --out dead --ranks 3 --set train.tokens=51200000 2>err.txt &
    pid=$!
    wait_for dead/latest $pid
    local v=($(ranks_of $pid)) before=$(date +%s)
    kill "-$1" "${v[$(($2 - 1))]}"
    wait $pid
    local rc=$? took=$(($(date +%s) - before)) left=0 p
    for p in "${v[@]}"; do kill -0 "$p" 2>/dev/null && left=1; done
    [ $rc -eq 1 ] && [ $took -lt 30 ] && [ $left = 0 ] && grep -q "$3" err.txt
    result $? "$4: all end after $took s: $(tail -1 err.txt)"
    grep -q "\"sentence\": *\"${5:-$3}" dead/failed.json && grep -q '"step": *[1-9]' dead/failed.json
    result $? "and failed.json says it, with the step" || sed 's/^/# /' dead/failed.json
}
ends KILL 2 "rank 1 on $(hostname) was killed by signal 9" "kill -9 of rank 1"
ends KILL 1 "rank 0 on $(hostname) was killed by signal 9" "kill -9 of rank 0"
is "$(grep -c "rank 0 on" err.txt)" 1 "which is said once" || sed 's/^/# /' err.txt
for fault in write:9 rename:2; do
    rm -rf full
    ASSAY_FAULT=$fault "$ASSAY" train --quiet --config run.ini --shards shards --out full --ranks 3 2>err.txt
    is "$? $(grep -c "rank 0 on" err.txt)" "1 1" "a failure of rank 0 ($fault) is said once: $(tail -1 err.txt)" || sed 's/^/# /' err.txt
done
ends STOP 3 "rank 2 on $(hostname): no sign of life for 1 s" "SIGSTOP of rank 2"
ends STOP 1 "rank 0 on $(hostname): no sign of life for 1 s" "SIGSTOP of rank 0" "rank 0 on $(hostname) did not end when another had, and was killed"
rm -rf dead
"$ASSAY" train --quiet --config run.ini --shards shards --out slept --ranks 2 $slow &
pid=$!
wait_for slept/latest $pid
v=($(ranks_of $pid))
kill -STOP "${v[@]}"
sleep 2.5
kill -CONT "${v[@]}"
wait $pid
[ $? -eq 0 ] && same long2 slept
result $? "all ranks stopped for longer than silence is borne, and woken: nothing happened"

port=$((20000 + $$ % 20000))
by_env() { # rank, world, arguments
    RANK=$1 WORLD_SIZE=$2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$ASSAY" train --quiet --config run.ini "${@:3}"
}
pair() { # text, name, arguments of rank 1
    rm -rf dead
    by_env 0 2 --shards shards --out dead 2>err0.txt &
    local a=$!
    by_env 1 2 --out dead "${@:3}" 2>err1.txt
    local one=$?
    wait $a
    local zero=$?
    [ $one -ne 0 ] && [ $zero -ne 0 ] && grep -q -- "$1" err0.txt && [ ! -s err1.txt ] && [ ! -e dead/latest ]
    result $? "$2: $(cat err0.txt)"
}
pair "rank 1 on $(hostname).*lr = 0.02 here, but 0.01 on rank 0" "another option on rank 1" --shards shards --set train.lr=0.02
pair "rank 1 on $(hostname).*shards" "other data on rank 1" --shards other
pair "rank 1 on $(hostname).*vocab = 64 here, but 61 on rank 0" "another vocabulary on rank 1" --shards shards --set model.vocab=64
pair "rank 1 on $(hostname).*missing" "a rank that fails before the first step" --shards missing
ASSAY_RANK_START=1 by_env 0 3 --shards shards --out dead 2>err.txt
[ $? -eq 1 ] && grep -q "ranks 1, 2 of 3 did not come within 1 s" err.txt
result $? "two that never start: $(cat err.txt)"
ASSAY_RANK_START=1 by_env 0 5000 --shards shards --out dead 2>err.txt
has err.txt "ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 4987 more of 5000 did not come" "of thousands some are named, the others counted"
ASSAY_RANK_START=1 by_env 1 3 --shards shards --out dead 2>err.txt
[ $? -eq 1 ] && grep -q "rank 1 on $(hostname): rank 0 did not answer at 127.0.0.1" err.txt
result $? "rank 0 never starts: $(cat err.txt)"

# What a launcher says is looked at before anybody waits: rc, sentence.
wrong() { # text, name, variables
    env "${@:3}" "$ASSAY" train --quiet --config run.ini --shards shards --out dead 2>err.txt
    [ $? -ne 0 ] && grep -q -- "$1" err.txt && [ ! -e dead/latest ]
    result $? "$2: $(head -1 err.txt)"
}
both="WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 ASSAY_RANK_START=1"
wrong "MASTER_PORT=99999 is no port" "a port that would wrap" RANK=1 $both MASTER_PORT=99999
wrong "MASTER_PORT=abc is no port" "a port that is no number" RANK=0 $both MASTER_PORT=abc
wrong 'host "no.such.invalid" is not known here' "a host that rank 0 does not know" RANK=0 $both MASTER_PORT=$port MASTER_ADDR=no.such.invalid
wrong 'host "no.such.invalid" is not known here' "nor does rank 1" RANK=1 $both MASTER_PORT=$port MASTER_ADDR=no.such.invalid
wrong "192.0.2.7 is no address of this machine" "an address of another machine is said, as it opens all of this one's" RANK=0 $both MASTER_PORT=$port MASTER_ADDR=192.0.2.7
wrong "RANK=1 is set, but WORLD_SIZE is not" "RANK without WORLD_SIZE does not train alone" RANK=1
wrong "RANK=0 is set, but WORLD_SIZE is not" "nor with an empty one" RANK=0 WORLD_SIZE=
RANK=0 train dead --ranks 2 2>err.txt
is $? 2 "nor does it start ranks: $(cat err.txt)"
wrong "there is no folder $tmp/nowhere" "a file to meet in, in a folder that is not there" RANK=0 WORLD_SIZE=2 ASSAY_RENDEZVOUS="$tmp/nowhere/meet"
ok "which is not made" test ! -e "$tmp/nowhere"
wrong "ASSAY_RANK_START=abc is no time" "a wait that is no number" RANK=0 $both MASTER_PORT=$port ASSAY_RANK_START=abc
wrong "ASSAY_RANK_SILENCE=-3 is no time" "a silence below nothing" RANK=0 $both MASTER_PORT=$port ASSAY_RANK_SILENCE=-3
ASSAY_RANK_SILENCE=never train dead --ranks 3 2>err.txt
is "$? $(grep -c 'ASSAY_RANK_SILENCE=never is no time' err.txt)" "2 1" "the launcher says so once, for all ranks"
mkdir none
wrong "put libassay_mpi.so where ASSAY_LIBDIR says: it is looked for there alone" "mpirun's ranks are not told to build what is only not looked for" \
    ASSAY_LIBDIR=$tmp/none OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2

# ---- other ways to start ----
by_env 0 2 --shards shards --out byenv & by_env 1 2 --shards shards --out byenv
wait && same two byenv
result $? "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT: the same bytes"
# Behind address translation rank 0 does not have the address that the others are told.
RANK=0 WORLD_SIZE=2 MASTER_ADDR=192.0.2.7 MASTER_PORT=$port train bynat 2>err.txt &
RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port train bynat
wait && same two bynat && grep -q "192.0.2.7 is no address of this machine, so port $port is open on all" err.txt
result $? "MASTER_ADDR is not rank 0's own, but leads to it: the same bytes, behind a warning"
for r in 0 1; do
    RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 ASSAY_RENDEZVOUS=$tmp/meet train byfile &
done
wait && same two byfile
result $? "RANK, WORLD_SIZE and a file: the same bytes"
for r in 0 1; do
    SLURM_PROCID=$r SLURM_LOCALID=$r SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=$$ SLURM_STEP_ID=0 \
        SLURM_STEP_NODELIST=localhost train byslurm &
done
wait && same two byslurm
result $? "the variables of srun: the same bytes"
RANK=0 WORLD_SIZE=2 train no --ranks 2 2>err.txt
is $? 2 "--ranks for a rank is refused: $(cat err.txt)"
train no --ranks 2 --set train.comm=mpi 2>err.txt
is "$? $(grep -cE 'MPI carries gradients between ranks that mpirun or srun --mpi=pmix started|comm mpi: .*libassay_mpi' err.txt)" "1 1" "train.comm = mpi without mpirun: $(cat err.txt)"
if [ -e "$BUILD/libassay_mpi.so" ] && command -v mpirun >/dev/null; then
    export ASAN_OPTIONS=detect_leaks=0 # MPI leaks on its own
    wrong "mpirun started 2 ranks, but MPI counts 1" "an MPI that is not mpirun's does not train alone" OMPI_COMM_WORLD_RANK=0 \
        OMPI_COMM_WORLD_SIZE=2 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    run="mpirun --allow-run-as-root --oversubscribe -n"
    $run 2 "$ASSAY" train --quiet --config run.ini --shards shards --out bympi --set train.comm=mpi >out.txt 2>&1 &&
        same two bympi
    result $? "mpirun -n 2 with MPI's messages: the same bytes as through shared memory"
    has bympi/manifest.json '"comm": *"mpi"' "and it was MPI"
    $run 3 "$ASSAY" train --quiet --config run.ini --shards shards --out bympi3 --set train.comm=mpi --set train.zero=1 >out.txt 2>&1 &&
        same three bympi3
    result $? "mpirun -n 3 with ZeRO-1 likewise"
    $run 2 "$ASSAY" train --quiet --config run.ini --shards shards --out usrmpi --set train.comm=mpi $slow >out.txt 2>&1 &
    pid=$!
    wait_for usrmpi/latest $pid
    kill -USR1 $pid
    wait $pid
    is $? 4 "SIGUSR1 to mpirun reaches the ranks: status 4"
    train usrmpi --resume $slow --ranks 2 && same long2 usrmpi
    result $? "and the run goes on, to the bytes of a straight one"
    $run 2 "$ASSAY" train --quiet --config run.ini --shards shards --out dead --set train.comm=mpi --set train.tokens=51200000 >out.txt 2>&1 &
    pid=$!
    wait_for dead/latest $pid
    before=$(date +%s)
    kill -9 "$(ranks_of $pid | tail -1)"
    wait $pid
    [ $? -ne 0 ] && [ $(($(date +%s) - before)) -lt 30 ]
    result $? "kill -9 of a rank ends mpirun: $(grep -m1 rank out.txt)"
else
    skip "mpirun: Open MPI is not here (make deps MPI=1)"
fi

# ---- as many as the hardware file's GPUs that open ----
if [ -f "$BUILD/cudaemu/libassay_cuda.so" ]; then
    export ASSAY_LIBDIR=$BUILD/cudaemu ASSAY_CUDA_TUNE=separate
    printf '%s\n' '[hardware]' 'name = two' 'device = D' 'count = 2' 'memory_gib = 4' 'peak_tflops = 10' 'price_hour = 3' >two.ini
    gpu="--config run.ini --set train.backend=cuda --set train.tokens=1024 --set train.val_every=0 --shards shards --hardware two.ini"
    CUEMU_DEVICES=3 "$ASSAY" train $gpu --out gpu2 2>err.txt
    has err.txt "2 ranks, 2 of them on" "a hardware file of two GPUs, three are here: two ranks"
    CUEMU_DEVICES=1 "$ASSAY" train $gpu --out gpu1 2>err.txt
    has err.txt "two has 2 devices, here are 1" "one is here: one rank, and a warning"
    CUEMU_DEVICES=2 "$ASSAY" eval --task windows --model one --shards shards --tokens 100 --backend cuda --hardware two.ini --out w >/dev/null 2>err.txt
    has err.txt "2 ranks, 2 of them on" "a loss is shared among them as well"
else
    skip "ranks by the hardware file: NVIDIA's headers"
fi
sleep 1 # what another job is just making is not ours
is "$(find /dev/shm -name 'assay-*' -newer shards ! -newermt '1 second ago' 2>/dev/null)" "" "no shared memory is left, whatever died"
done_testing
