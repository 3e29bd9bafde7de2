#!/usr/bin/env bash
# Slurm itself on two nodes, which are network namespaces: the batch scripts of docs/clusters.md with
# CPU ranks, and what ends them. Starts its own munged, slurmctld and slurmd in a folder of its own and
# ends them by their processes. Needs root, Slurm (slurmctld, slurmd, slurm-client) and munge.
. "$(dirname "$0")/../cli/tap.sh"
. "$(dirname "$0")/../cli/chain.sh"
. "$(dirname "$0")/two.sh"
docs=$PWD/docs/clusters.md
BUILD=$(cd "$BUILD" && pwd)
tmp=$(mktemp -d)
trap '[ $BASHPID = $$ ] && slurm_down' EXIT
slurm_down() {
    two_down
    [ ! -s "$tmp/munge/pid" ] || kill "$(cat "$tmp/munge/pid")"
    rm -rf "$tmp"
}
for tool in slurmctld slurmd srun munged; do
    command -v "$tool" >/dev/null && continue
    skip "Slurm: $tool (apt-get install slurmctld slurmd slurm-client munge)"
    done_testing
done
if ! two_up sl$$a sl$$b; then
    skip "a network namespace (needs root)"
    done_testing
fi

# ---- a cluster
cd "$tmp" || exit 1
chmod 755 . # munged wants a way to its socket
mkdir -m 755 state munge
(umask 077 && head -c 128 /dev/urandom >munge/key)
cat >slurm.conf <<EOT
ClusterName=assay
SlurmctldHost=$one(10.77.1.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$tmp/munge/socket,cred_expire=5
StateSaveLocation=$tmp/state
SlurmdSpoolDir=$tmp/%n
SlurmctldPidFile=$tmp/slurmctld.pid
SlurmdPidFile=$tmp/%n.pid
SlurmctldLogFile=$tmp/slurmctld.log
SlurmdLogFile=$tmp/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=30
GresTypes=gpu
NodeName=$one NodeAddr=10.77.1.1 CPUs=8 Gres=gpu:8
NodeName=$two NodeAddr=10.77.1.2 CPUs=8 Gres=gpu:8
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE
EOT
for k in {0..7}; do mknod gpu$k c 1 3; done # gpus enough for Slurm
echo "Name=gpu File=$tmp/gpu[0-7]" >gres.conf
echo "PMIxCliTmpDirBase=$tmp/own" >mpi.conf
[ "$(slurmd -V | grep -o '[0-9]*' | head -1)" -ge 24 ] && echo CgroupPlugin=disabled >cgroup.conf || echo CgroupPlugin=cgroup/v1 >cgroup.conf
export SLURM_CONF=$tmp/slurm.conf
munged --force --socket=munge/socket --key-file="$tmp/munge/key" --pid-file="$tmp/munge/pid" --log-file="$tmp/munge/log" \
    --seed-file="$tmp/munge/seed" 2>munge/err
./on "$one" slurmctld -c
./on "$one" slurmd -N "$one"
./on "$two" slurmd -N "$two"
slurm() { timeout "${limit:-60}" ./on "$one" "$@"; }
for _ in $(seq 50); do
    [ "$(slurm sinfo -h -t idle -o %D 2>/dev/null)" = 2 ] && break
    sleep 0.2
done
if ! is "$(slurm sinfo -h -t idle -o %D 2>&1)" 2 "a cluster of two nodes: $(slurm sinfo --version)"; then
    slurm sinfo -R | sed 's/^/# /'
    tail -n 5 ./*.log | sed 's/^/# /'
    done_testing
fi

# ---- the scripts of the page, with our files and counts
chain_shards shards 9000 900
cat >run.ini <<EOT
[model]
layers = 2
heads = 2
width = 48
context = 64
vocab = 61
[train]
tokens = 20480
batch = 8
lr = 1e-2
checkpoint_every = 10
threads = 1
backend = cpu
EOT
train() { "$ASSAY" train --quiet --config run.ini --shards shards "$@"; }
script() { # which of the page, folder to write, options of train
    awk -v want="$1" '/^#!\/bin\/sh/ { n++ } /^```/ { on = 0 } /^#!\/bin\/sh/ || on { on = 1; if (n == want) print }' "$docs" |
        sed "s|assay train|$ASSAY train|; s|RUN.ini|run.ini|; s|SHARDS|shards|; s|--out OUT|--out $2 $3|
            s/per-node=8/per-node=2/; s/per-task=8/per-task=1/" >"$2.sh"
}
batch() { rm -f "${!#%.sh}.txt" && slurm sbatch --parsable --chdir="$tmp" --output="${!#%.sh}.txt" "$@"; }
state() { slurm scontrol show job "$1" | grep -o "$2=[^ ]*" | cut -d= -f2; }
ended() { # job, seconds: its state and status once it has ended
    local k
    for k in $(seq $(($2 * 2))); do
        case $(state "$1" JobState) in COMPLETED | FAILED | TIMEOUT | CANCELLED | NODE_FAIL) break ;; esac
        sleep 0.5
    done
    echo "$(state "$1" JobState) $(state "$1" ExitCode)"
}
until_there() { # seconds, condition
    local k
    for k in $(seq $(($1 * 5))); do
        eval "$2" && return
        sleep 0.2
    done
    return 1
}
train --out here --ranks 2 && train --out one && near one here
result $? "two ranks on one machine, to compare with: the losses of one"

script 2 there
is "$(ended "$(batch there.sh)" 60)" "COMPLETED 0:0" "srun --mpi=pmix: $(grep srun there.sh | sed "s|$ASSAY|assay|")"
has there.txt "2 ranks, 1 of them on $one (slurm)" "one rank a node, who meet by Slurm's variables"
has there/manifest.json '"comm": *"mpi"' "with MPI's messages"
same here there
result $? "the same bytes as two ranks on one machine"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
script 3 bympi
is "$(ended "$(batch bympi.sh)" 60)" "COMPLETED 0:0" "exec mpirun: $(grep mpirun bympi.sh | sed "s|$ASSAY|assay|")"
has bympi.txt "2 ranks, 1 of them on $one (mpi)" "one rank a node"
same here bympi
result $? "the same bytes"
slurm srun -N2 "$ASSAY" train --quiet --config run.ini --shards shards --out without 2>err.txt
has err.txt "MPI carries gradients between ranks that mpirun or srun --mpi=pmix started" "srun without it says so: $(grep -m1 MPI err.txt)"

# ---- what ends them
long="--set train.tokens=51200000"
script 2 usr "$long"
job=$(batch usr.sh)
until_there 30 '[ -e usr/latest ]'
slurm scancel --signal=USR1 "$job"
is "$(ended "$job" 40)" "FAILED 4:0" "scancel --signal=USR1 ends the job with status 4"
has usr.txt "interrupted at step" "which saved"
step=$(readlink usr/latest)
job=$(batch usr.sh)
until_there 30 "grep -qs 'going on from' usr.txt"
has usr.txt "going on from step $((10#${step#step-})) " "the same script again goes on from there: $step"
until_there 30 "[ \$(readlink usr/latest) != $step ]"
slurm scancel "$job"
is "$(ended "$job" 40 | cut -d' ' -f1)" "CANCELLED" "scancel ends it"
has usr.txt "interrupted at step" "and it saved"
is "$(rank_on "$one")$(rank_on "$two")" "" "nobody is left"
script 3 usrmpi "$long"
job=$(batch usrmpi.sh)
until_there 30 '[ -e usrmpi/latest ]'
slurm scancel --batch --signal=USR1 "$job" # as --signal=B:USR1@120
is "$(ended "$job" 40) $(grep -c "interrupted at step" usrmpi.txt)" "FAILED 4:0 1" "mpirun in place of the batch script's shell passes the signal on"
script 2 dead "$long"
job=$(batch dead.sh)
until_there 30 '[ -e dead/latest ]'
before=$(date +%s)
kill -9 "$(rank_on "$two")"
is "$(ended "$job" 40 | cut -d' ' -f1)" "FAILED" "kill -9 of a rank ends the job"
took=$(($(date +%s) - before))
[ $took -lt 30 ] && [ -z "$(rank_on "$one")$(rank_on "$two")" ]
result $? "and all ranks, after $took s"
has dead.txt "rank 1 on $two: it died" "who says which: $(grep -m1 'rank 1' dead.txt)"

# ---- the limit of time, and GPUs: two jobs at once, as this takes a minute
script 2 limit "$long"
sed -i 's/--time=[^ ]*/--time=1/; s/--signal=[^ ]*//' limit.sh
limited=$(batch limit.sh)
if [ -f "$BUILD/cudaemu/libassay_cuda.so" ]; then
    export ASSAY_LIBDIR=$BUILD/cudaemu ASSAY_CUDA_TUNE=separate CUEMU_DEVICES=2
    sed 's/^width.*/width = 32/; s/^context.*/context = 32/; s/^tokens.*/tokens = 2560/; s/^batch.*/batch = 4/; s/cpu/cuda/' run.ini >gpu.ini
    "$ASSAY" train --quiet --config gpu.ini --shards shards --out gpuone
    script 1 gpus
    sed -i 's/run.ini/gpu.ini/' gpus.sh
    is "$(ended "$(batch gpus.sh)" 60)" "COMPLETED 0:0" "emulated GPUs: $(grep srun gpus.sh | sed "s|$ASSAY|assay|")"
    has gpus.txt "4 ranks, 2 of them on $one (slurm)" "two ranks on each of two nodes"
    has gpus/manifest.json '"comm": *"nccl"' "through NCCL"
    near gpuone gpus
    result $? "the losses of one"
    script 1 again "$long"
    sed -i 's/run.ini/gpu.ini/; s/--time=[^ ]*/--time=2/; s/USR1@120/USR1@110/' again.sh
    job=$(batch again.sh)
    until_there 110 "grep -qs 'going on from' again.txt"
    is "$(state "$job" Restarts) $(grep -c 'interrupted at step' again.txt)" "1 1" "before its limit the job saves and is queued again"
    step=$(grep -o 'interrupted at step [0-9]*' again.txt | grep -o '[0-9]*')
    has again.txt "going on from step $step " "it goes on from step $step"
    slurm scancel "$job"
    is "$(ended "$job" 40 | cut -d' ' -f1)" "CANCELLED" "until scancel ends it for good"
else
    skip "emulated GPUs: NVIDIA's headers"
fi
is "$(ended "$limited" 120 | cut -d' ' -f1)" "TIMEOUT" "the limit of time without --signal"
has limit.txt "interrupted at step" "its SIGTERM saves as well: $(grep -o 'interrupted at step [0-9]*' limit.txt)"
ok "a whole checkpoint" test -s limit/latest/state.msgpack
done_testing
