#!/usr/bin/env bash
# Ranks on two machines: network namespaces with a cable between them and host names of their own.
# mpirun reaches the other one by an agent in place of ssh. Needs root and Open MPI.
. "$(dirname "$0")/../cli/tap.sh"
BUILD=$(cd "$BUILD" && pwd)
tmp=$(mktemp -d)
one=assay$$a two=assay$$b
clean() {
    local p ns
    [ $BASHPID = $$ ] || return 0
    for ns in $one $two; do
        for p in $(ip netns pids $ns 2>/dev/null); do kill -9 "$p" 2>/dev/null; done
        ip netns del $ns 2>/dev/null
    done
    rm -rf "$tmp"
}
trap clean EXIT
if ! ip netns add $one 2>/dev/null || ! ip netns add $two || ! unshare -u true; then
    skip "a network namespace (needs root)"
    done_testing
fi
ip link add v0 netns $one type veth peer name v0 netns $two
for k in "$one 10.77.1.1" "$two 10.77.1.2"; do
    set -- $k
    ip -n "$1" link set lo up
    ip -n "$1" addr add "$2/24" dev v0
    ip -n "$1" link set v0 up
done
cd "$tmp" || exit 1
perl -e '
    sub shard { my ($name, $n, $seed) = @_;
        open my $f, ">:raw", $name or die; my ($x, @t) = (0);
        for (1 .. $n) { $seed = ($seed * 1103515245 + 12345) % 2147483648;
            $x = ($x * 5 + 1 + 7 * (($seed >> 16) & 1)) % 61; push @t, $x; }
        print $f pack("V256", 20240520, 1, $n, (0) x 253), pack("v*", @t); }
    mkdir "shards"; shard("shards/c_train_000000.bin", 9000, 1); shard("shards/c_val_000000.bin", 900, 2);'
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
has() { # file, pattern, name
    grep -q -- "$2" "$1"
    result $? "$3" || sed 's/^/# /' "$1" | head -20
}
same() {
    cmp -s "$1/latest/model.safetensors" "$2/latest/model.safetensors" &&
        cmp -s "$1/latest/optimizer.safetensors" "$2/latest/optimizer.safetensors" &&
        diff <(cut -d, -f1-5 "$1/metrics.jsonl") <(cut -d, -f1-5 "$2/metrics.jsonl") >/dev/null
}
wait_for() { # file, process
    while [ ! -e "$1" ] && kill -0 "$2" 2>/dev/null; do sleep 0.05; done
}
rank_on() { # namespace: the process of assay in it
    local p
    for p in $(ip netns pids "$1"); do
        [ "$(cat "/proc/$p/comm" 2>/dev/null)" = assay ] && echo "$p"
    done | tail -1
}
# What ssh would do: HOST COMMAND...
cat >agent <<EOT
#!/bin/sh
host=\$1
shift
[ "\$host" = 10.77.1.1 ] && ns=$one || ns=$two
exec ip netns exec \$ns unshare -u sh -c "hostname node-\$ns; \$*"
EOT
chmod +x agent
"$ASSAY" train --quiet --config run.ini --shards shards --out here --ranks 2
result $? "two ranks on one machine, to compare with"

if [ -e "$BUILD/libassay_mpi.so" ] && command -v mpirun >/dev/null; then
    mpi() { # rest of mpirun's words
        exec ./agent 10.77.1.1 exec mpirun --allow-run-as-root --oversubscribe --host 10.77.1.1:1,10.77.1.2:1 \
            --mca plm_rsh_agent "$tmp/agent" --mca btl tcp,self --mca btl_tcp_if_include 10.77.1.0/24 \
            --mca oob_tcp_if_include 10.77.1.0/24 -x ASSAY_RANK_SILENCE "$@"
    }
    train="$ASSAY train --config run.ini --shards shards"
    (mpi -n 2 $train --out there) >out.txt 2>&1
    result $? "mpirun over two machines"
    has out.txt "2 ranks, 1 of them on node-$one (mpi)" "one rank on each"
    has there/manifest.json '"comm": *"mpi"' "with MPI's messages"
    same here there
    result $? "the same bytes as two ranks on one machine"
    (mpi -n 2 $train --out zero --set train.zero=1) >out.txt 2>&1
    same here zero
    result $? "and so with ZeRO-1"
    "$ASSAY" train --config run.ini --shards shards --out there 2>err.txt
    has err.txt "up to date" "one machine finds the run of two up to date"
    (mpi -n 1 $train --out dead : -n 1 $train --out dead --set train.lr=0.02) >out.txt 2>&1
    [ $? -ne 0 ] && [ ! -e dead/latest ]
    result $? "another option on one machine ends both"
    has out.txt "rank 1 on node-$two has other options, data or program: lr = 0.02 here, but 0.01 on rank 0" "with rank and host"
    export ASSAY_RANK_SILENCE=2
    ends() { # text, name, how, both: a rank of the other machine must have gone as well
        rm -rf dead
        (mpi -n 2 $train --out dead --set train.tokens=51200000) >out.txt 2>&1 &
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
    ends "rank 1 on node-$two: it died" "kill -9 on the other machine" 'kill -9 "$(rank_on $two)"' both
    ends "rank 1 on node-$two: no sign of life for 2 s" "SIGSTOP on the other machine" 'kill -STOP "$(rank_on $two)"' ""
    ends "rank 1 on node-$two: no sign of life for 2 s" "a cable that is pulled" 'ip -n $two link set v0 down' both
    ip -n $two link set v0 up
else
    skip "mpirun: Open MPI (make deps MPI=1)"
fi

# Without MPI: the ranks find each other over the network; as these two are one machine after all (one
# host name), sums go through its memory.
env_ranks() { # folder, variables that are set for all
    local out=$1 r ns
    shift
    for r in 0 1; do
        [ $r = 0 ] && ns=$one || ns=$two
        ip netns exec $ns env RANK=$r WORLD_SIZE=2 "$@" "$ASSAY" train --quiet --config run.ini --shards shards --out "$out" 2>err$r.txt &
        pids[$r]=$!
    done
    wait "${pids[0]}"
    local zero=$?
    wait "${pids[1]}"
    [ $? -eq 0 ] && [ $zero -eq 0 ]
}
env_ranks tcp MASTER_ADDR=10.77.1.1 MASTER_PORT=29500 && same here tcp
result $? "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT over the network: the same bytes: $(cat err0.txt err1.txt)"
env_ranks file ASSAY_RENDEZVOUS="$tmp/meet" && same here file
result $? "a file that both see, the address over the network: the same bytes: $(cat err0.txt err1.txt)"
for r in 0 1; do
    [ $r = 0 ] && ns=$one || ns=$two
    ip netns exec $ns env SLURM_PROCID=$r SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=4711 SLURM_STEP_ID=0 \
        SLURM_STEP_NODELIST=10.77.1.1,10.77.1.2 "$ASSAY" train --quiet --config run.ini --shards shards --out slurm &
    pids[$r]=$!
done
wait "${pids[@]}" && same here slurm
result $? "what srun sets, on two nodes: the same bytes"
ip netns exec $two env ASSAY_RANK_START=2 RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.77.1.1 MASTER_PORT=29500 \
    "$ASSAY" train --quiet --config run.ini --shards shards --out no 2>err.txt
has err.txt "rank 1 on .*: rank 0 did not answer at 10.77.1.1 port 29500 within 2 s" "a rank 0 that never starts: $(cat err.txt)"
done_testing
