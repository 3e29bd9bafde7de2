#!/usr/bin/env bash
# Losses that are killed in the middle go on where they were: windows, strides, documents, ranks; the
# same bytes as one that was never killed, and never with what another model, text or option has left.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# Dies at its N-th write, of which half arrives: of the journal, 1 is its head and each row one more.
killed() { # N command...
    local n=$1
    shift
    { ASSAY_FAULT=kill:$n "$@" > "$tmp/out" 2>&1; } 2> "$tmp/err"
    [ $? -ge 128 ]
}
journals() { find "$tmp/e" -name '*.journal' | wc -l; }
rows() { "$ASSAY" cat "$@" 2> "$tmp/err" | grep -o '"row":[0-9]*' | sort; }
kept() { grep -o '[0-9]* sequences are there from a run before' "$tmp/err" | cut -d' ' -f1; }

quiet "$ASSAY" corpus --out "$tmp/c" --docs 500 --seed 1
quiet "$ASSAY" split --in "$tmp/c/docs.jsonl" --holdout 0.2 --out "$tmp/d"
quiet "$ASSAY" vocab train --in "$tmp/d/train.jsonl" --size 400 --out "$tmp/v.tiktoken"
quiet "$ASSAY" shard --vocab "$tmp/v.tiktoken" --in "$tmp/d/train.jsonl" --test "$tmp/d/test.jsonl" --out "$tmp/s"
printf '%s\n' '[model]' 'layers = 1' 'heads = 2' 'width = 32' 'context = 48' '[train]' 'tokens = 2K' \
    'batch = 8' 'threads = 1' > "$tmp/run.ini"
for seed in 1 2; do
    quiet "$ASSAY" train --config "$tmp/run.ini" --set train.seed=$seed --shards "$tmp/s" --out "$tmp/m$seed"
done
windows=("$ASSAY" eval --task windows --threads 1 --shards "$tmp/s" --model "$tmp/m1")
documents=("$ASSAY" eval --task documents --threads 1 --vocab "$tmp/v.tiktoken" --items "$tmp/d/test.jsonl" --model "$tmp/m1")
mkdir "$tmp/e"

resumed() { # name first-kill command...
    local name=$1 n=$2 have=0 k one=yes
    shift 2
    quiet "$@" --out "$tmp/e/$name.msgpack" || return 1
    for k in 1 2 3; do # each goes on behind the one before
        killed "$n" "$@" --out "$tmp/e/$name-k.msgpack" || { echo "# kill $k: not killed: $(cat "$tmp/out")"; return 1; }
        rows "$tmp/e/$name-k.msgpack".*.journal > "$tmp/rows"
        [ "$(wc -l < "$tmp/rows")" -gt $have ] || { echo "# kill $k: no row was added"; return 1; }
        have=$(wc -l < "$tmp/rows")
        [ -z "$(uniq -d "$tmp/rows")" ] || { echo "# kill $k: computed twice: $(uniq -d "$tmp/rows" | head -3)"; return 1; }
        [ ! -e "$tmp/e/$name-k.msgpack" ] || one=no
    done
    quiet "$@" --out "$tmp/e/$name-k.msgpack" || return 1
    [ "$(kept)" = "$have" ] || { echo "# $have rows were there: $(cat "$tmp/err")"; return 1; }
    [ $one = yes ] && cmp "$tmp/e/$name.msgpack" "$tmp/e/$name-k.msgpack"
}
ok "windows, killed three times" resumed w 30 "${windows[@]}"
ok "a stride, killed three times" resumed s 60 "${windows[@]}" --stride 20
ok "documents, with those longer than the context" resumed d 40 "${documents[@]}"
ok "of which there are some" grep -q '"rolled": [1-9]' "$tmp/e/d.msgpack.manifest.json"
for name in w d; do
    is "$(grep -E '"(nats|key)":' "$tmp/e/$name-k.msgpack.manifest.json")" "$(grep -E '"(nats|key)":' "$tmp/e/$name.msgpack.manifest.json")" "$name: the manifest's key and nats as well"
done
is "$(journals)" 0 "journals go when the result is there"

# ---- ranks
for how in "2 2" "3 1" "1 3" "2 5"; do
    read -r first then <<< "$how"
    killed 25 "${documents[@]}" --ranks "$first" --out "$tmp/e/r.msgpack"
    have=$(journals)
    quiet "${documents[@]}" --ranks "$then" --out "$tmp/e/r.msgpack"
    ok "documents on $first ranks ($have journals), killed, $(kept) sequences kept, then on $then" [ "$(kept)" -gt 15 ]
    ok "the same bytes" cmp "$tmp/e/d.msgpack" "$tmp/e/r.msgpack"
    is "$(journals)" 0 "no journal of any rank is left"
    rm -f "$tmp"/e/r.*
done

# ---- torn and damaged
killed 40 "${windows[@]}" --out "$tmp/e/t.msgpack"
j=$(find "$tmp/e" -name 't.msgpack.*.journal')
whole=$(rows "$j" | wc -l)
quiet "${windows[@]}" --out "$tmp/e/t.msgpack"
is "$(grep -c "t.msgpack.*dropped" "$tmp/err")" 1 "a torn last row is said once"
is "$(kept)" "$whole" "and only the whole rows are taken"
ok "the same bytes" cmp "$tmp/e/w.msgpack" "$tmp/e/t.msgpack"
rm -f "$tmp"/e/t.*
killed 40 "${windows[@]}" --out "$tmp/e/t.msgpack"
printf 'XXXX' | dd of="$j" bs=1 seek=90 conv=notrunc 2> "$tmp/err"
ok "damage before the last row is an error with its place" fails 1 "t.msgpack.*journal.*byte.*delete it, and what it would have held is computed again" "${windows[@]}" --out "$tmp/e/t.msgpack"
head -c 5 "$tmp/e/w.msgpack" > "$j"
ok "a journal that was killed in its head is empty" quiet "${windows[@]}" --out "$tmp/e/t.msgpack"
ok "the same bytes" cmp "$tmp/e/w.msgpack" "$tmp/e/t.msgpack"
rm -f "$tmp"/e/t.*
for fault in write:30 sync:2 rename:1; do
    ok "a disk that fails ($fault) is an error" fails 1 't.msgpack' env ASSAY_FAULT=$fault "${windows[@]}" --out "$tmp/e/t.msgpack"
    ok "after which it goes on" quiet "${windows[@]}" --out "$tmp/e/t.msgpack"
    ok "with what was there ($(kept))" [ "$(kept)" -ge 1 ]
    ok "and has the same bytes" cmp "$tmp/e/w.msgpack" "$tmp/e/t.msgpack"
    rm -f "$tmp"/e/t.*
done
ok "a slice that is not there leaves no journal" fails 2 "the split has" "${windows[@]}" --start 99999999 --out "$tmp/e/t.msgpack"
is "$(journals)" 0 "since nothing is in it"

# ---- another model, text or option takes nothing
other() { # what command... : kept rows of ${base[@]} lie there
    local what=$1
    shift
    quiet "$@" --out "$tmp/e/fresh.msgpack"
    ok "$what: the journal is not read" bash -c "! grep -q 'are there from a run' '$tmp/err'"
    killed 20 "${base[@]}" --out "$tmp/e/o.msgpack"
    quiet "$@" --out "$tmp/e/o.msgpack"
    ok "$what: nothing of it is taken" bash -c "! grep -q 'are there from a run' '$tmp/err'"
    ok "$what: which is said" grep -q '1 journal of .* is of another model, text or option' "$tmp/err"
    ok "$what: the same bytes as without it" cmp "$tmp/e/fresh.msgpack" "$tmp/e/o.msgpack"
    is "$(journals)" 1 "$what: it stays"
    rm -f "$tmp"/e/fresh.* "$tmp"/e/o.msgpack "$tmp"/e/o.msgpack.manifest.json
    quiet "${base[@]}" --out "$tmp/e/o.msgpack"
    ok "$what: and is read by its own" [ "$(kept)" -gt 10 ]
    rm -f "$tmp"/e/o.*
}
base=("${windows[@]}")
other "another model" "${windows[@]/"$tmp/m1"/"$tmp/m2"}"
other "another precision" "${windows[@]}" --precision bf16
other "another start" "${windows[@]}" --start 1
other "another window" "${windows[@]}" --window 47
other "another stride" "${windows[@]}" --stride 24
quiet "$ASSAY" shard --vocab "$tmp/v.tiktoken" --in "$tmp/d/train.jsonl" --test "$tmp/d/train.jsonl" --out "$tmp/s2"
other "other shards" "${windows[@]/"$tmp/s"/"$tmp/s2"}"

# ---- weights that were replaced under their manifest: other bytes of the same size, and another size
swapped() { fails 1 "model.safetensors: $1.*it was written over. Delete $tmp/over/manifest.json if the new file is meant" "${@:2}"; }
cp -rL "$tmp/m1/latest" "$tmp/over"
over=("${documents[@]/"$tmp/m1"/"$tmp/over"}")
killed 40 "${over[@]}" --out "$tmp/e/k.msgpack"
quiet "${over[@]}" --out "$tmp/e/o.msgpack"
printf '[{"id": "1", "instruction": "Say so.", "input": "", "output": "so"}]' > "$tmp/ask.json"
for how in "its SHA-256" "[0-9]* bytes"; do
    cp "$tmp/m2/latest/model.safetensors" "$tmp/over/model.safetensors"
    [ "$how" = "its SHA-256" ] || head -c -4 "$tmp/m2/latest/model.safetensors" > "$tmp/over/model.safetensors"
    ok "replaced weights ($how) are no old number" swapped "$how" "${over[@]}" --out "$tmp/e/o.msgpack"
    ok "nor a new one with the old hash" swapped "$how" "${over[@]}" --out "$tmp/e/new.msgpack"
    ok "nor the end of a killed one" swapped "$how" "${over[@]}" --out "$tmp/e/k.msgpack"
    [ "$how" = "its SHA-256" ] || break # a safetensors file that is cut is no file to the others
    ok "windows" swapped "$how" "${windows[@]/"$tmp/m1"/"$tmp/over"}" --out "$tmp/e/new.msgpack"
    ok "answers" swapped "$how" "$ASSAY" eval --task instruct --model "$tmp/over" --vocab "$tmp/v.tiktoken" --items "$tmp/ask.json" --out "$tmp/e/new.msgpack"
    ok "sample" swapped "$how" "$ASSAY" sample --model "$tmp/over" --vocab "$tmp/v.tiktoken" --prompt A --max-new-tokens 1
    ok "serve" swapped "$how" timeout 20 "$ASSAY" serve --model "$tmp/over" --vocab "$tmp/v.tiktoken" --port 0
    ok "export-model" swapped "$how" "$ASSAY" export-model --model "$tmp/over" --vocab "$tmp/v.tiktoken" --out "$tmp/e/hf"
done
cp "$tmp/m2/latest/model.safetensors" "$tmp/over/model.safetensors"
rm "$tmp/over/manifest.json"
quiet "${over[@]}" --out "$tmp/e/o.msgpack"
quiet "${documents[@]/"$tmp/m1"/"$tmp/m2"}" --out "$tmp/e/m2.msgpack"
ok "without the manifest the new weights are measured" cmp "$tmp/e/o.msgpack" "$tmp/e/m2.msgpack"
quiet "${over[@]}" --out "$tmp/e/k.msgpack"
ok "and take nothing of the old ones' journal" grep -q '1 journal of .* is of another model, text or option' "$tmp/err"
ok "the same bytes" cmp "$tmp/e/k.msgpack" "$tmp/e/m2.msgpack"
rm -f "$tmp"/e/*

base=("${documents[@]}")
sed 's/ the / a /' "$tmp/d/test.jsonl" > "$tmp/d2.jsonl"
other "other texts under the same ids" "${documents[@]/"$tmp/d/test.jsonl"/"$tmp/d2.jsonl"}"
quiet "$ASSAY" vocab train --in "$tmp/d/test.jsonl" --size 400 --out "$tmp/v2.tiktoken"
cp -rL "$tmp/m1/latest" "$tmp/bare" # which does not say whose ids it reads
rm "$tmp/bare/manifest.json"
base=("${base[@]/"$tmp/m1"/"$tmp/bare"}")
other "another vocabulary" "${base[@]/"$tmp/v.tiktoken"/"$tmp/v2.tiktoken"}"
done_testing
