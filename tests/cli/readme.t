#!/usr/bin/env bash
# The README's commands, extracted and run on a small chain (make demo and what needs a network apart).
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
root=$PWD
export PATH="$(dirname "$ASSAY"):$PATH" OMP_NUM_THREADS=2

# the indented blocks: every line that is a command
awk '/^```/{code=!code; next} code' README.md > "$tmp/code"
grep -E '^assay ' "$tmp/code" > "$tmp/assay"
grep -E '^make ' "$tmp/code" | sed 's/ *#.*//' > "$tmp/make"
ok "the README has commands of both kinds" test "$(wc -l < "$tmp/assay")" -ge 6 -a "$(wc -l < "$tmp/make")" -ge 4

cd "$tmp" || exit 1
{
    assay corpus --out corpus --docs 300 --seed 1 &&
    assay split --in corpus/docs.jsonl --holdout 0.1 --instruct corpus/instruct.json --out data &&
    assay vocab train --in data/train.jsonl --size 400 --out VOCAB.tiktoken &&
    assay shard --vocab VOCAB.tiktoken --in data/train.jsonl --test data/test.jsonl --out SHARDS &&
    printf '[model]\nlayers = 1\nheads = 2\nwidth = 32\ncontext = 128\n[train]\ntokens = 4K\nbatch = 4\n' > run.ini &&
    assay train --config run.ini --shards SHARDS --out train && cp -rL train/latest DIR &&
    cp corpus/instruct.json questions.json && ln -s "$root/pipelines" pipelines &&
    mkdir -p runs/small && cp run.ini runs/small/ && cp -r train runs/small/pretrain && assay result --run runs/small
} > log 2>&1
is $? 0 "a small chain to try the commands on" || sed 's/^/# /' log

while read -r line; do
    case $line in
    *fetch\ gpt2* | *--judge*) # a network or a server: only that the command and its options are known
        cmd=$(echo "$line" | awk '{print $2}')
        known=0
        for o in $(echo "$line" | grep -oE -- '--[a-z-]+' | tr - _ | sed 's/^__//'); do
            assay help "$cmd" | tr - _ | grep -q -- "__$o" || known=1
        done
        result $known "its options exist: $line"
        ;;
    *)
        run=${line//VOCAB/VOCAB.tiktoken}
        bash -c "$run" > out 2> err < /dev/null
        is $? 0 "it runs: $line" || sed 's/^/# /' err
        ;;
    esac
done < assay
cd "$root" || exit 1
while read -r line; do
    case $line in
    make\ test | *RUN=mine* | *RUNS=*) continue ;; # this very run; the reader's own names
    esac
    bash -c "${line/make /make -n DEPS=0 BUILD=$BUILD RUNS_DIR=$tmp/runs }" > "$tmp/out" 2>&1
    is $? 0 "make knows: $line" || tail -3 "$tmp/out" | sed 's/^/# /'
done < "$tmp/make"
for d in $(grep -oE 'docs/[a-z]+\.md' README.md | sort -u); do
    ok "$d is there" test -s "$d"
done
done_testing
