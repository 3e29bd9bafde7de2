#!/usr/bin/env bash
# Ranks on two machines: network namespaces with a cable between them and host names of their own.
# mpirun reaches the other one by an agent in place of ssh. The command lines are those of
# docs/clusters.md. Needs root and Open MPI; slurm.t tries Slurm.
. "$(dirname "$0")/../cli/tap.sh"
. "$(dirname "$0")/../cli/chain.sh"
. "$(dirname "$0")/two.sh"
docs=$PWD/docs/clusters.md
BUILD=$(cd "$BUILD" && pwd)
tmp=$(mktemp -d)
trap '[ $BASHPID = $$ ] && two_down && rm -rf "$tmp"' EXIT
if ! two_up assay$$a assay$$b; then
    skip "a network namespace (needs root)"
    done_testing
fi
cd "$tmp" || exit 1
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
# What ssh would do: HOST COMMAND...
printf '#!/bin/sh\nhost=$1\nshift\nexec %s/on $host "$*"\n' "$tmp" >agent
chmod +x agent
"$ASSAY" train --quiet --config run.ini --shards shards --out here --ranks 2
result $? "two ranks on one machine, to compare with"
"$ASSAY" train --quiet --config run.ini --shards shards --out one && near one here
result $? "which have the losses of one"

if [ -e "$BUILD/libassay_mpi.so" ] && command -v mpirun >/dev/null; then
    # What mpirun needs here, outside of its command line.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    export OMPI_MCA_plm_rsh_agent=$tmp/agent
    mpi() { # command line of mpirun
        exec ./on "$one" "exec $1"
    }
    mpirun="mpirun --host 10.77.1.1:1,10.77.1.2:1 -x ASSAY_RANK_SILENCE"
    train="$ASSAY train --config run.ini --shards shards"
    line=$(told "mpirun .*--host " there)
    (mpi "$line") >out.txt 2>&1
    result $? "mpirun over two machines: ${line//$ASSAY/assay}"
    has out.txt "2 ranks, 1 of them on $one (mpi)" "one rank on each"
    has there/manifest.json '"comm": *"mpi"' "with MPI's messages"
    same here there
    result $? "the same bytes as two ranks on one machine"
    printf '10.77.1.%s slots=2\n' 1 2 >hosts
    line=$(told "mpirun .*--hostfile " four | sed 's/-n 16/-n 4/')
    (mpi "$line") >out.txt 2>&1
    result $? "mpirun with a file of hosts, two ranks on each: ${line//$ASSAY/assay}"
    has out.txt "4 ranks, 2 of them on $one (mpi)" "four ranks"
    near one four
    result $? "the losses of one"
    (mpi "$mpirun -n 2 $train --out zero --set train.zero=1") >out.txt 2>&1
    same here zero
    result $? "and so with ZeRO-1"
    "$ASSAY" train --config run.ini --shards shards --out there 2>err.txt
    has err.txt "up to date" "one machine finds the run of two up to date"
    (mpi "$mpirun -n 1 $train --out dead : -n 1 $train --out dead --set train.lr=0.02") >out.txt 2>&1
    [ $? -ne 0 ] && [ ! -e dead/latest ]
    result $? "another option on one machine ends both"
    has out.txt "rank 1 on $two has other options, data or program: lr = 0.02 here, but 0.01 on rank 0" "with rank and host"
    export ASSAY_RANK_SILENCE=2
    ends() { # text, name, how, both: a rank of the other machine must have gone as well
        rm -rf dead
        (mpi "$mpirun -n 2 $train --out dead --set train.tokens=51200000") >out.txt 2>&1 &
        local pid=$! before
        wait_for dead/latest $pid
        before=$(date +%s)
        eval "$3"
        while [ -n "$(rank_on $one)$4" ] && [ $(($(date +%s) - before)) -lt 40 ]; do
            sleep 0.2
            [ -n "$(rank_on $two)" ] || set -- "$1" "$2" "$3" ""
        done
        local took=$(($(date +%s) - before)) p
        for p in 1 2 3 4 5 6; do grep -q "$1" out.txt || sleep 0.5; done # mpirun passes it on
        [ $took -lt 30 ] && grep -q "$1" out.txt
        result $? "$2: ended after $took s: $(grep -m1 'rank [01] on' out.txt)"
        # mpirun itself may wait for a machine that it cannot reach.
        for p in $(ip netns pids $one) $(ip netns pids $two); do kill -9 "$p"; done 2>/dev/null
        wait $pid 2>/dev/null
    }
    ends "rank 1 on $two: it died" "kill -9 on the other machine" 'kill -9 "$(rank_on $two)"' both
    ends "rank 1 on $two: no sign of life for 2 s" "SIGSTOP on the other machine" 'kill -STOP "$(rank_on $two)"' ""
    ends "rank 1 on $two: no sign of life for 2 s" "a cable that is pulled" 'ip -n $two link set v0 down' both
    ip -n $two link set v0 up
else
    skip "mpirun: Open MPI (make deps MPI=1)"
fi

# Without MPI: the ranks find each other over the network; as these two are one machine after all (one
# host name), sums go through its memory.
two_ranks() { # a command line with $r
    local ns=$one pids=() rc=0
    for r in 0 1; do
        r=$r ip netns exec $ns sh -c "$1" 2>err$r.txt &
        pids+=($!)
        ns=$two
    done
    wait "${pids[0]}" || rc=1
    wait "${pids[1]}" || rc=1
    return $rc
}
of_two() { sed 's/WORLD_SIZE=16/WORLD_SIZE=2/; s/% 8/% 1/; s/--config/--quiet --config/; s|/shared/job-17|'"$tmp/meet|"; }
line=$(told "RANK=.*MASTER_ADDR" tcp | of_two)
two_ranks "$line" && same here tcp
result $? "${line//$ASSAY/assay}: the same bytes: $(cat err0.txt err1.txt)"
line=$(told "RANK=.*ASSAY_RENDEZVOUS" file | of_two)
two_ranks "$line" && same here file
result $? "${line//$ASSAY/assay}: the same bytes: $(cat err0.txt err1.txt)"
two_ranks "SLURM_PROCID=\$r SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=4711 SLURM_STEP_ID=0 \
    SLURM_STEP_NODELIST=10.77.1.1,10.77.1.2 $ASSAY train --quiet --config run.ini --shards shards --out slurm" && same here slurm
result $? "what srun sets, on two nodes: the same bytes"
ip netns exec $two env ASSAY_RANK_START=2 RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.77.1.1 MASTER_PORT=29500 \
    "$ASSAY" train --quiet --config run.ini --shards shards --out no 2>err.txt
has err.txt "rank 1 on .*: rank 0 did not answer at 10.77.1.1 port 29500 within 2 s" "a rank 0 that never starts: $(cat err.txt)"
done_testing
