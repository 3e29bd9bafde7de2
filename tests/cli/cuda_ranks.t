#!/usr/bin/env bash
# Several GPUs where there is none: assay train --ranks on emulated devices, gradients through the
# emulated NCCL, streams as early and as late as they may be. Compiled and emulated, not run on GPUs.
set -u
. tests/cli/tap.sh
. tests/cli/chain.sh
BUILD=$(cd "$BUILD" && pwd)
tmp=$(mktemp -d)
trap '[ $BASHPID = $$ ] && rm -rf "$tmp"' EXIT
if [ ! -f "$BUILD/cudaemu/libassay_cuda.so" ]; then
    skip "NVIDIA's headers (cuda_runtime.h, cublasLt.h)"
    done_testing
fi
export ASSAY_LIBDIR=$BUILD/cudaemu ASSAY_CUDA_TUNE=separate CUEMU_DEVICES=4 OMP_NUM_THREADS=1
cd "$tmp" || exit 1
chain_shards shards 3000 300
cat >run.ini <<INI
[model]
layers = 2
heads = 2
width = 32
context = 32
vocab = 61
dropout = 0.1
[train]
backend = cuda
tokens = 2560
batch = 4
lr = 1e-2
checkpoint_every = 10
threads = 1
INI
train() { local out=$1; shift; "$ASSAY" train --quiet --config run.ini --shards shards --out "$out" "$@"; }

train cpu --set train.backend=cpu && train one && train two --ranks 2
is $? 0 "20 steps on the CPU, on one device and on two"
near cpu one
result $? "one device has the losses and norms of the CPU"
near cpu two
result $? "so have two"
has two/manifest.json '"comm": *"nccl"' "through NCCL"
has two/manifest.json '"comm_share": *[0-9]' "the manifest says which share they stood still for each other"
train zero --ranks 2 --set train.zero=1 && same two zero
result $? "ZeRO-1 on two devices: the same bytes"
for seed in 1 7; do
    CUEMU_LAZY=1 CUEMU_SEED=$seed train "lazy$seed" --ranks 2 && same two "lazy$seed"
    result $? "streams as late as they may be, threads in another order ($seed): the same bytes"
done
CUEMU_LAZY=1 train lazyzero --ranks 2 --set train.zero=1 && same two lazyzero
result $? "and with ZeRO-1"
CUEMU_LAZY=2 train early --ranks 2 && same two early
result $? "the computing stream as late as it may be and the other as early: the same bytes"
CUEMU_LAZY=2 train earlyzero --ranks 2 --set train.zero=1 && same two earlyzero
result $? "and with ZeRO-1"
train four --ranks 4 --set train.zero=1 && near cpu four
result $? "four devices with ZeRO-1 have the losses of the CPU"

# Resume: a checkpoint of two devices on one, and on four.
cut_at_10() { # folder, arguments
    local out=$1 pid
    shift
    "$ASSAY" train --quiet --config run.ini --shards shards --out "$out" "$@" 2>err.txt &
    pid=$!
    while [ ! -e "$out/latest" ] && kill -0 $pid 2>/dev/null; do sleep 0.01; done
    kill -TERM $pid
    wait $pid
}
cut_at_10 half --ranks 2 --set train.zero=1
is $? 4 "SIGTERM ends two devices with status 4"
cp -r half half4
train half --resume && near cpu half
result $? "their checkpoint goes on with one device"
train half4 --resume --ranks 4 && near cpu half4
result $? "and with four"

# What each device used is summed.
LD_LIBRARY_PATH=$BUILD/cudaemu/nvml CUEMU_NVML_USED=7000 train power --ranks 2 >/dev/null
LD_LIBRARY_PATH=$BUILD/cudaemu/nvml CUEMU_NVML_USED=7000 train power1 >/dev/null
joules() { sed -n 's/^ *"energy_j": *\([0-9.]*\).*/\1/p' "$1/manifest.json"; }
is "$(joules power) $(joules power1)" "14.0 7.0" "energy is the sum over devices"

# What goes wrong is said.
CUEMU_DEVICES=1 train alone --ranks 2 2>err.txt
is $? 1 "two ranks need two devices"
has err.txt 'rank 1 on .*device 1 is not there; this machine has 1' "which is said with the rank"
"$ASSAY" train --quiet --config run.ini --shards shards --out dead --ranks 2 --set train.tokens=1M 2>err.txt &
pid=$!
while [ ! -e dead/latest ] && kill -0 $pid 2>/dev/null; do sleep 0.01; done
kill -9 "$(ps -o pid= --ppid $pid | sort -n | tail -1)"
began=$SECONDS
wait $pid
ok "a rank that dies ends all: status $?" [ $((SECONDS - began)) -lt 30 ]
has err.txt 'rank 1 was killed\|rank 1 on' "and is named"

# Two ranks that were given one GPU: named, by rank 0 alone; not so where each sees other devices.
pair() { # what rank 1 sees
    local rc
    rm -rf meet
    for r in 0 1; do
        env $([ $r = 0 ] || echo "$1") RANK=$r WORLD_SIZE=2 LOCAL_RANK=0 ASSAY_RENDEZVOUS=$tmp/meet "$ASSAY" train --quiet --config run.ini --shards shards --out shared 2>err$r.txt &
    done
    wait $!
    rc=$?
    wait
    echo $rc
}
is "$(pair A=1) $(grep -c "ranks 0 and 1 on $(hostname) both take GPU 0" err0.txt) $(wc -c <err1.txt)" "2 1 0" "two ranks with one LOCAL_RANK on one GPU are refused: $(head -1 err0.txt)"
is "$(pair CUDA_VISIBLE_DEVICES=1)" 0 "two that see other devices are not" || cat err0.txt err1.txt | sed 's/^/# /'

# A launcher that shows each rank one GPU alone: by number, or in a container where each calls its own 0.
shown() { # what rank 0 is told, what rank 1 is told
    local rc
    rm -rf meet shared
    for r in 0 1; do
        env $([ $r = 0 ] && echo "$1" || echo "$2") RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r ASSAY_RENDEZVOUS=$tmp/meet "$ASSAY" train --quiet --config run.ini --shards shards --out shared 2>err$r.txt &
    done
    wait $!
    rc=$?
    wait
    echo $rc
}
one=CUDA_VISIBLE_DEVICES=0
is "$(shown $one CUDA_VISIBLE_DEVICES=1)" 0 "ranks 0 and 1 that are shown GPU 0 and GPU 1 take these" || cat err0.txt err1.txt | sed 's/^/# /'
is "$(shown $one "$one CUEMU_FIRST=1")" 0 "so do two that both call theirs 0" || cat err0.txt err1.txt | sed 's/^/# /'
is "$(shown $one $one) $(grep -c "both take GPU 0 (GPU-0[0-9a-f-]*1)" err0.txt)" "2 1" "two that are shown the same one are refused: $(head -1 err0.txt)"
is "$(shown CUDA_VISIBLE_DEVICES=0,1 CUDA_VISIBLE_DEVICES=1,0) $(grep -c "both take GPU" err0.txt)" "2 1" "as are two whose numbers differ for one GPU: $(head -1 err0.txt)"

# An evaluation on several ranks is as strict.
loss() { # what rank 1 has
    local rc
    rm -rf meet w w.*
    for r in 0 1; do
        env $([ $r = 0 ] || echo "$1") RANK=$r WORLD_SIZE=2 LOCAL_RANK=${2:-0} ASSAY_RENDEZVOUS=$tmp/meet "$ASSAY" eval \
            --task windows --model one --shards shards --tokens 100 --backend cuda --out w >out$r.txt 2>err$r.txt &
    done
    wait $!
    rc=$?
    wait
    echo $rc
}
is "$(loss A=1) $(grep -c "ranks 0 and 1 on $(hostname) both take GPU 0" err0.txt) $(wc -c <err1.txt)" "2 1 0" "eval refuses two ranks on one GPU: $(head -1 err0.txt)"
is "$(loss CUDA_VISIBLE_DEVICES=1) $(grep -c nats out0.txt out1.txt | tr '\n' ' ')" "0 out0.txt:1 out1.txt:0 " "two that see other devices share it, and rank 0 says it" || cat err0.txt err1.txt out0.txt | sed 's/^/# /'
is "$(CUEMU_DEVICES=1 loss A=1 9) $(grep -c "rank [01] on $(hostname).*device 9 is not there; this machine has 1" err0.txt)" "1 1" "a LOCAL_RANK beyond the devices is said with the rank: $(head -1 err0.txt)"
done_testing
