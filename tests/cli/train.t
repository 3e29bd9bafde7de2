#!/usr/bin/env bash
# assay train, finetune and plan from the command line: kills at random moments, signals, a disk
# that fails, bad input. LONG=1: 20 kills instead of 5.
set -u
n=0
bad=0
ok() { n=$((n + 1)); if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; bad=1; fi; }
is() { [ "$1" = "$2" ]; ok $? "$3 (got $1)"; }
has() { grep -q -- "$2" "$1"; local rc=$?; ok $rc "$3"; [ $rc -eq 0 ] || sed 's/^/# /' "$1"; }
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/cli/chain.sh"
assay=${ASSAY:?path of the tool}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
export OMP_NUM_THREADS=2

chain_shards shards 9000 900
cat >run.ini <<EOF
[model]
layers = 2
heads = 2
width = 48
context = 64
vocab = 61
dropout = 0.1
qkv_bias = false
[train]
tokens = 51200
batch = 8
lr = 1e-2
checkpoint_every = 10
keep = 2
threads = 2
backend = cpu
[finetune]
epochs = 3
lr = 1e-3
batch = 4
EOF
train() { local out=$1; shift; "$assay" train --quiet --config run.ini --shards shards --out "$out" "$@"; }
# In the background the function's shell must become the tool, so that a kill hits the tool.
train_bg() { exec "$assay" train --quiet --config run.ini --shards shards --out "$@"; }
same() { # folders of checkpoints, weights, moments
    diff <(cd "$1" && ls) <(cd "$2" && ls) >/dev/null &&
        cmp -s "$1/latest/model.safetensors" "$2/latest/model.safetensors" &&
        cmp -s "$1/best/model.safetensors" "$2/best/model.safetensors" &&
        cmp -s "$1/latest/optimizer.safetensors" "$2/latest/optimizer.safetensors" &&
        diff <(cut -d, -f1-5 "$1/metrics.jsonl") <(cut -d, -f1-5 "$2/metrics.jsonl") >/dev/null
}

start=$(date +%s%N)
train whole
is $? 0 "a straight run ends with status 0"
ms=$((($(date +%s%N) - start) / 1000000))
is "$(wc -l <whole/metrics.jsonl | tr -d ' ')" 100 "with a line of metrics for each of 100 steps"
is "$(cd whole && ls | tr '\n' ' ')" "best latest manifest.json metrics.jsonl segments.jsonl step-00000090 step-00000100 " \
    "and the newest two checkpoints"

# What it wrote, read by a program that shares no code with it.
python3 "$here/read_checkpoint.py" whole/latest >read.txt 2>&1
ok $? "an independent reader accepts the checkpoint: $(tail -1 read.txt)"
has read.txt "transformer.h.1.attn.c_attn.bias F32 144 0$" "a model without q/k/v bias stores zeros for other readers"

times=5
[ -n "${LONG:-}" ] && times=20
RANDOM=$$
for k in $(seq $times); do
    train_bg cut 2>/dev/null &
    pid=$!
    wait_ms=$((RANDOM % (ms + 50)))
    sleep "$(printf '%d.%03d' $((wait_ms / 1000)) $((wait_ms % 1000)))"
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    steps=$(ls cut 2>/dev/null | grep -c step-)
    train cut --set train.threads=1 --set train.micro_batch=$((k % 8 + 1)) && same whole cut
    ok $? "killed after $wait_ms of about $ms ms ($steps checkpoints), run again: the same bytes"
    rm -rf cut
done

# Killed behind the last checkpoint, before an older one was taken away: with one more to keep that is
# the folder.
train late --set train.keep=3 && rm late/manifest.json && [ -d late/step-00000080 ] && train late && same whole late
ok $? "killed between the last checkpoint and the removal of an old one, run again: the same folders"

train_bg term --set train.micro_batch=1 2>err.txt &
pid=$!
while [ ! -e term/latest ] && kill -0 $pid 2>/dev/null; do sleep 0.02; done
kill -TERM $pid
wait $pid
is $? 4 "SIGTERM ends it with status 4"
has err.txt "interrupted at step" "which says where"
[ -s term/latest/state.msgpack ] && [ ! -e term/manifest.json ]
ok $? "behind a whole checkpoint and without a manifest"
train term --resume && same whole term
ok $? "--resume ends it with the same bytes"
train term
is $? 0 "a third time it is up to date"

# A disk that fails at the k-th write, sync or rename.
for fault in write:3 write:9 sync:2 rename:1 rename:7; do
    ASSAY_FAULT=$fault train fault 2>err.txt
    rc=$?
    [ $rc -eq 1 ] && [ "$(wc -l <err.txt)" -ge 1 ] && [ ! -e fault/manifest.json ] &&
        train fault && same whole fault
    ok $? "$fault fails with a sentence, then the run ends with the same bytes"
    rm -rf fault
done

# A failure is told apart from a kill, in its own words, until the run goes on.
mkdir -p runs/f
cp run.ini runs/f/run.ini
ASSAY_FAULT=rename:7 train runs/f/pretrain 2>err.txt
is $? 1 "a training that fails"
"$assay" compare --list runs >list.txt
has list.txt "failed at step [0-9]*: .*$(sed -n 's/^train: //p' err.txt | tail -1 | cut -c1-30)" "is listed as failed, with its sentence"
train runs/f/pretrain 2>err.txt && [ ! -e runs/f/pretrain/failed.json ] && same whole runs/f/pretrain
ok $? "and goes on to the same bytes, without the mark"

# A run whose training could not even begin is a failed one too, and says why.
mkdir -p runs/g
cp run.ini runs/g/run.ini
train runs/g/pretrain --set train.backend=nosuch 2>err.txt
"$assay" compare --list runs >list.txt
has list.txt "^g .*failed before its first step: no backend is named .nosuch." "a device that is not there: listed as failed"
"$assay" train --quiet --config run.ini --shards nosuch --out runs/g/pretrain 2>err.txt
"$assay" compare --list runs >list.txt
has list.txt "^g .*failed before its first step: $(sed -n 's/^train: //p' err.txt | tail -1 | cut -c1-30)" "so is one that was refused before"
train runs/g/pretrain 2>err.txt && [ ! -e runs/g/pretrain/failed.json ] && same whole runs/g/pretrain
ok $? "and it can begin"

# What is refused leaves nothing.
before=$(ls -A shards)
train shards 2>err.txt
is $? 2 "shards are no place for checkpoints"
has err.txt "would write over the input shards" "which is said"
[ "$(ls -A shards)" = "$before" ]
ok $? "and no lock is left there"
train refused --set model.heads=5 2>err.txt
[ $? -ne 0 ] && [ ! -e refused ]
ok $? "a refused training makes no folder"
train refused --set train.backend=nosuch 2>err.txt
[ $? -ne 0 ] && [ ! -e refused ]
ok $? "nor one whose device is not there: $(tail -1 err.txt)"

# Bad input.
check() { # status, text, what, arguments
    local want=$1 text=$2 what=$3
    shift 3
    rm -rf nothing
    train nothing "$@" 2>err.txt
    rc=$?
    [ $rc -eq "$want" ] && grep -q -- "$text" err.txt && [ ! -e nothing/manifest.json ] && [ ! -e nothing/latest ]
    ok $? "$what: $(tail -1 err.txt)"
}
check 2 "batch" "an unknown key names the near miss" --set train.batchs=3
check 2 "model.heads" "heads that do not divide the width" --set model.heads=5
check 1 "vocabulary has 50" "a vocabulary that is too small" --set model.vocab=50
check 1 "needs" "a model that cannot fit says what it needs" --set model.layers=1000 --set model.width=32768
mv shards good
check 1 "shards" "missing shards"
mkdir shards
check 1 "shards" "an empty folder"
head -c 3000 good/c_train_000000.bin >shards/c_train_000000.bin
check 1 "c_train_000000.bin" "a truncated shard"
head -c 18000 /dev/zero >shards/c_train_000000.bin
check 1 "c_train_000000.bin" "a shard of another kind"
rm -r shards
mv good shards
train held --set train.max_hours=0.000001 2>/dev/null
is $? 4 "max_hours ends it with status 4"
train held --resume --set train.lr=0.5 2>err.txt
is $? 1 "--resume with other options is refused"
has err.txt "train.lr was 0.01, is 0.5" "and says which"

# plan
cat >box.ini <<EOF
[hardware]
name = box
device = D
count = 2
memory_gib = 4
peak_fp32 = 10
price_hour = 3
EOF
"$assay" plan --config run.ini --hardware box.ini --utilisation 0.5 --reserve-gib 0 >plan.txt
is $? 0 "plan ends with status 0"
has plan.txt "steps        100 of 8 sequences of 64" "plan counts steps"
has plan.txt "micro-batch  4, 1 pass a step" "plan finds the micro-batch of each of two devices"
has plan.txt "assuming 50% of 2 x 10 TFLOP/s" "plan states its assumption"
sed -i 's/^memory_gib = 4/memory_gib = 0.0005/' box.ini
"$assay" plan --config run.ini --hardware box.ini --reserve-gib 0 >plan.txt 2>err.txt
is $? 1 "plan says when not even one sequence fits"

# finetune: example shards by hand, then kills.
perl -e '
    sub examples { my ($name, $n) = @_; my (@at, @id, @mask) = (0);
        for my $k (1 .. $n) { my $x = $k % 60;
            for my $t (1 .. 6 + $k % 9) { push @id, $x; push @mask, $t > 3 ? 1 : 0; $x = ($x * 5 + 1) % 61; }
            push @at, scalar @id; }
        open my $f, ">:raw", $name or die;
        print $f pack("V256", 20261130, 1, $n, 61, 14, (0) x 251), pack("Q<*", @at), pack("V*", @id), pack("C*", @mask); }
    mkdir "ex"; examples("ex/train.bin", 90); examples("ex/val.bin", 11);'
tune_bg() { exec "$assay" finetune --quiet --init whole --config run.ini --examples ex --out "$1"; }
tune() { "$assay" finetune --quiet --init whole --config run.ini --examples ex --out "$1" "${@:2}"; }
start=$(date +%s%N)
tune ft
is $? 0 "finetune ends with status 0"
ms=$((($(date +%s%N) - start) / 1000000))
cmp -s ft/latest/model.safetensors ft/checkpoint/model.safetensors
ok $? "latest leads to its checkpoint"
python3 "$here/read_checkpoint.py" ft/latest >read.txt 2>&1
ok $? "an independent reader accepts it: $(tail -1 read.txt)"
for k in $(seq $times); do
    tune_bg cut 2>/dev/null &
    pid=$!
    wait_ms=$((RANDOM % (ms + 20)))
    sleep "$(printf '%d.%03d' $((wait_ms / 1000)) $((wait_ms % 1000)))"
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    tune cut --set train.threads=1 && cmp -s ft/checkpoint/model.safetensors cut/checkpoint/model.safetensors &&
        diff <(cd ft && ls) <(cd cut && ls) >/dev/null
    ok $? "finetune killed after $wait_ms of about $ms ms, run again: the same bytes"
    rm -rf cut
done
for verb in train tune; do
    $verb elsewhere --backend nowhere 2>err.txt
    is $? 2 "$verb --backend nowhere is refused"
    has err.txt "nowhere" "by its name"
    $verb here-$verb --set train.backend=nowhere --backend cpu 2>err.txt
    is $? 0 "$verb --backend goes over the run file"
done
head -c 1500 ex/train.bin >x && mv x ex/train.bin
tune broken 2>err.txt
is $? 1 "a truncated example shard is refused"
has err.txt "train.bin" "by name"

echo "1..$n"
exit $bad
