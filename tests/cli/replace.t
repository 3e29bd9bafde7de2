#!/usr/bin/env bash
# A training with other options in a folder that holds one: the old run stays until the new one has a
# checkpoint of its own, whenever it is killed.
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/chain.sh"
tmp=$(mktemp -d)
trap '[ $BASHPID = $$ ] && rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
export OMP_NUM_THREADS=1
chain_shards shards 9000 900
cat >run.ini <<EOT
[model]
layers = 1
heads = 2
width = 48
context = 64
vocab = 61
[train]
tokens = 20480
batch = 8
lr = 1e-2
checkpoint_every = 10
keep = 2
threads = 1
backend = cpu
EOT
train() { local out=$1; shift; "$ASSAY" train --quiet --config run.ini --shards shards --out "$out" "$@"; }
list() { (cd "$1" && find . -type f -o -type l | sort | xargs sha256sum 2>/dev/null | cut -c1-80); }

train old 2>err.txt
is $? 0 "a run ends"
list old >before.txt

# Killed before it has a checkpoint: in its first step, and at every rename that puts the old run aside.
killed() { # name, environment and options of the new run
    local name=$1
    shift
    cp -a old here
    env "$@" "$ASSAY" train --quiet --config run.ini --shards shards --out here --set train.lr=2e-2 2>err.txt
    [ ! -e here/manifest.json ]
    result $? "$name: the old manifest does not speak of the new run"
    ls here/step-* >/dev/null 2>&1
    result $((!$?)) "nor are the old checkpoints taken for its own"
    train here 2>again.txt
    is $? 0 "the old options again end at once"
    list here >after.txt
    ok "with every file of the old run as it was" cmp before.txt after.txt
    rm -rf here
}
killed "a disk that fails at the first checkpoint" ASSAY_FAULT=sync:3
has err.txt "holds step 40 of a run with other options: train.lr was 0.01, is 0.02; starting over" "what differs is said"

cp -a old here
(exec "$ASSAY" train --quiet --config run.ini --shards shards --out here --set train.lr=2e-2 \
    --set train.tokens=20n --set train.checkpoint_every=0 2>err.txt) &
pid=$!

while ! [ -s here/metrics.jsonl ] || [ -e here/manifest.json ]; do kill -0 $pid 2>/dev/null || break; sleep 0.02; done
kill -9 $pid
wait $pid 2>/dev/null

[ -d here/.replaced ]
result $? "kill -9 in the new run leaves the old one aside"
"$ASSAY" sample --model here --prompt-ids 1 --ids 2>err.txt
is $? 1 "who asks for the folder's model meanwhile finds none"
has err.txt "here: no checkpoint in it: .*put the one before into .replaced: run either again" "and hears where it is"
train here --set train.lr=3e-2 --set train.max_hours=0.000001 2>err.txt
is $? 4 "a third run, interrupted with a checkpoint"
[ -e here/latest/state.msgpack ] && [ -d here/.replaced ]
result $? "does not cost the old run either"
"$ASSAY" train --config run.ini --shards shards --out here --resume 2>err.txt
is $? 0 "which is back when asked for"
has err.txt "the run that was there before is back; step [0-9]* of the one after it.*is kept in here/aside-1" "and that is said, with the step that makes room"
[ -e here/aside-1/latest/state.msgpack ] && [ ! -e here/.replaced ]
result $? "the third run's checkpoint is not lost"
mv here/aside-1 third
list here >after.txt
ok "the old run is whole" cmp before.txt after.txt
train third --resume --set train.lr=3e-2 2>err.txt
is $? 0 "the third one goes on where it was moved to" || cat err.txt
train straight --set train.lr=3e-2 2>err.txt
ok "as if it had never been moved" same third straight

# A move of it that was cut is undone, then done again; the name is the next that is free.
train here --set train.lr=3e-2 --set train.max_hours=0.000001 2>err.txt
mkdir here/aside-1 here/.aside.part
mv here/latest here/metrics.jsonl here/segments.jsonl here/.aside.part
train here 2>err.txt
is "$? $(ls here/aside-2 | grep -c -v step-) $(ls -d here/aside-2/step-* | wc -l)" "0 3 1" "cut in the middle, it is moved whole" || ls -A here/aside-2
has err.txt "is kept in here/aside-2" "to a folder of its own"
rm -r here/aside-[12]
list here >after.txt
ok "and the old run is as it was" cmp before.txt after.txt

# Half moved: as a kill between two renames leaves it.
mkdir here/.replaced.part
mv here/manifest.json here/latest here/step-00000040 here/.replaced.part
train here 2>err.txt
is $? 0 "a move that was cut is undone"
list here >after.txt
ok "and the run is whole" cmp before.txt after.txt

# The new one goes on where it was, and takes the place with its first checkpoint.
train here --set train.lr=3e-2 --set train.max_hours=0.000001 2>err.txt
train here --set train.lr=3e-2 2>err.txt
is $? 0 "the new run goes on and ends"
ok "as a straight one does" same here straight
is "$(ls -A here)" "$(ls -A straight)" "and nothing of the old run is left"

# A run that came home without its weights is not wiped either.
cp -a old home
rm -r home/step-* home/latest home/best
train home --set train.lr=2e-2 --set train.max_hours=0.000001 2>err.txt
train home 2>err.txt
is $? 0 "a sealed run comes back as well"

# A fine-tuning likewise, until the other one is whole.
perl -e '
    sub examples { my ($name, $n) = @_; my (@at, @id, @mask) = (0);
        for my $k (1 .. $n) { my $x = $k % 60;
            for my $t (1 .. 6 + $k % 9) { push @id, $x; push @mask, $t > 3 ? 1 : 0; $x = ($x * 5 + 1) % 61; }
            push @at, scalar @id; }
        open my $f, ">:raw", $name or die;
        print $f pack("V256", 20261130, 1, $n, 61, 14, (0) x 251), pack("Q<*", @at), pack("V*", @id), pack("C*", @mask); }
    mkdir "ex"; examples("ex/train.bin", 90); examples("ex/val.bin", 11);'
tune() { "$ASSAY" finetune --config run.ini --init old/latest --examples ex --out tuned --set finetune.epochs=1 "$@" 2>err.txt; }
tune
is $? 0 "a fine-tuning ends"
list tuned >before.txt
ASSAY_FAULT=sync:2 tune --set finetune.lr=1e-4
is $? 1 "another one on a disk that fails"
has err.txt "holds a fine-tuning with other options.*It is kept" "says what it keeps"
[ ! -e tuned/manifest.json ]
result $? "and the old manifest does not speak of it"
tune
is $? 0 "the old options again"
list tuned >after.txt
ok "find every file as it was" cmp before.txt after.txt
tune --set finetune.lr=1e-4
is "$? $(ls -A tuned | tr '\n' ' ')" "0 .lock checkpoint latest manifest.json metrics.jsonl " "a whole one takes its place"

# A kill between the new one's checkpoint and its manifest.
mkdir tuned/.replaced && mv tuned/checkpoint tuned/latest tuned/metrics.jsonl tuned/manifest.json tuned/.replaced
cp -r tuned/.replaced/checkpoint tuned
"$ASSAY" finetune --config run.ini --init old/latest --examples ex --out tuned --set finetune.epochs=1 --set finetune.lr=1e-4 2>err.txt
is "$? $(ls -A tuned | tr '\n' ' ')" "0 .lock aside-1 checkpoint latest manifest.json metrics.jsonl " "costs neither checkpoint" || cat err.txt
has err.txt "checkpoint of the one after it, which had other options, is kept in tuned/aside-1" "and that is said"
done_testing
