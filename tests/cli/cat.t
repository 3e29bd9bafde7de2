#!/usr/bin/env bash
# assay cat and verify, from the outside, on artefacts that the other commands made.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
data=${ASSAY_DATA:-../shared/data}
quiet() { "$@" > "$tmp/out" 2> "$tmp/err"; }
lines() { "$ASSAY" cat "$@" 2> "$tmp/err" | wc -l; }

# ---- artefacts of each kind
c=$tmp/run/corpus
quiet "$ASSAY" corpus --out "$c" --docs 60 --seed 3
quiet "$ASSAY" split --instruct "$c/instruct.json" --out "$tmp/run/split"
quiet "$ASSAY" vocab train --in "$c/docs.jsonl" --size 300 --out "$tmp/run/v.tiktoken"
quiet "$ASSAY" shard --vocab "$tmp/run/v.tiktoken" --in "$c/docs.jsonl" --holdout 0.2 --out "$tmp/run/shards"
items=$(ls "$tmp"/run/split/*.msgpack | head -1)
ok "the commands made a record file" [ -s "$items" ]
quiet "$ASSAY" shard --vocab "$tmp/run/v.tiktoken" --instruct --in "$items" --out "$tmp/run/ex"
bin=$(ls "$tmp"/run/shards/*train*.bin | head -1)
ok "token shards" [ -s "$bin" ]
ok "and example shards" [ -s "$tmp/run/ex/train.bin" ]

# ---- cat
n=$(lines "$items")
ok "a record file is a line a record" [ "$n" -gt 5 ]
is "$("$ASSAY" cat "$items" --n 1 | grep -c '^{"id":".*"instruction":".*}$')" 1 "which is a JSON object with the record's keys"
is "$(lines "$items" --n 3)" 3 "--n ends it"
is "$(lines "$items" --n 0)" 0 "also before the first"
cp "$items" "$tmp/new.msgpack"
printf 'x' | dd of="$tmp/new.msgpack" bs=1 seek=20 conv=notrunc 2> /dev/null
is "$("$ASSAY" cat "$tmp/new.msgpack" | cmp - <("$ASSAY" cat "$items") && echo same)" same "a record kind that is not known is shown as it stands"
printf '\011' | dd of="$tmp/new.msgpack" bs=1 seek=12 conv=notrunc 2> /dev/null
is "$(lines "$tmp/new.msgpack")" "$n" "so is a newer version"
size=$(stat -c %s "$items")
head -c $((size - 3)) "$items" > "$tmp/torn.msgpack"
is "$(lines "$tmp/torn.msgpack")" $((n - 1)) "a torn tail is dropped"
ok "and said" grep -q 'torn.msgpack: record [0-9]*, the last, is dropped, [0-9]* bytes from byte [0-9]* on: it reaches beyond the end' "$tmp/err"
cp "$items" "$tmp/flip.msgpack"
printf '\377' | dd of="$tmp/flip.msgpack" bs=1 seek=$((size - 3)) conv=notrunc 2> /dev/null
is "$(lines "$tmp/flip.msgpack")" $((n - 1)) "a last record of the right length and other bytes is dropped"
ok "and it is not called cut: its checksum is wrong" grep -q "flip.msgpack: record $n, the last, is dropped, .*: its checksum is wrong" "$tmp/err"
cp "$items" "$tmp/bad.msgpack"
printf '\377' | dd of="$tmp/bad.msgpack" bs=1 seek=60 conv=notrunc 2> /dev/null
ok "damage before the tail is an error with its place" fails 1 'bad.msgpack: record 1 at byte 24 is damaged: its checksum is wrong' "$ASSAY" cat "$tmp/bad.msgpack"

is "$("$ASSAY" cat "$bin" --n 5 | tail -1 | grep -c '^{"at":0,"ids":\[299,[0-9]*,[0-9]*,[0-9]*,[0-9]*\]}$')" 1 "a token shard shows its first ids, end-of-text in front"
is "$("$ASSAY" cat "$bin" | head -1 | grep -c '"tokens":[1-9][0-9]*,"width":2}$')" 1 "behind a line with its counts"
is "$("$ASSAY" cat "$bin" --n 200 | wc -l)" 5 "64 ids a line"
is "$("$ASSAY" cat "$tmp/run/ex/train.bin" --n 1 | tail -1 | grep -c '^{"example":0,"ids":\[.*\],"mask":\[0,.*1\]}$')" 1 "an example shard shows ids and mask"
is "$("$ASSAY" cat "$tmp/run/ex/train.bin" | wc -l)" $((n + 1)) "a line an example"
is "$("$ASSAY" cat "$c" | grep -c '^{"schema":"assay manifest".*"command":"corpus"')" 1 "a folder shows its manifest"
is "$(lines "$c/docs.jsonl" --n 7)" 7 "JSONL is a line a line"
ok "a JSON array is a line an element" [ "$(lines "$c/instruct.json")" -ge "$n" ]
is "$(lines "$c/truth.json")" 1 "an object is one line"
if [ -d "$data/model/tiny-random-gpt2" ]; then
    m=$data/model/tiny-random-gpt2/model.safetensors
    is "$("$ASSAY" cat "$m" | grep -c '^{"name":"transformer\..*"shape":\[[0-9,]*\],.*"nonfinite":0}$')" 64 "safetensors: a line a tensor with its spread"
    is "$("$ASSAY" cat "$m" | grep -o '"transformer.wte.weight","dtype":"F32","shape":\[1000,32\],"bytes":128000')" \
        '"transformer.wte.weight","dtype":"F32","shape":[1000,32],"bytes":128000' "by name, dtype, shape and bytes"
else
    skip data/model/tiny-random-gpt2
    skip data/model/tiny-random-gpt2
fi

: > "$tmp/empty.msgpack"
echo hello > "$tmp/hello.txt"
ok "an empty file is refused" fails 1 'empty.msgpack: empty' "$ASSAY" cat "$tmp/empty.msgpack"
ok "as is what is no artefact" fails 1 'hello.txt: no artefact' "$ASSAY" cat "$tmp/hello.txt"
ok "a missing file" fails 1 'none.bin: No such file' "$ASSAY" cat "$tmp/none.bin"
mkdir "$tmp/hollow"
ok "a folder without a manifest" fails 1 'hollow: no manifest' "$ASSAY" cat "$tmp/hollow"
ok "no file at all" fails 2 'FILE\|file' "$ASSAY" cat
ok "a full disk is an error" fails 1 'write to stdout' sh -c '"$0" cat "$1" > /dev/full' "$ASSAY" "$c/docs.jsonl"

# ---- verify
ok "verify finds all manifests below a folder" fails 0 'verify: 5 artefacts' "$ASSAY" verify "$tmp/run"
is "$("$ASSAY" verify "$tmp/run/v.tiktoken" 2> /dev/null | grep -c "^ok  *$tmp/run/v.tiktoken  1 files")" 1 "a file is found by its name"
is "$("$ASSAY" verify "$tmp/run/shards/manifest.json" 2> /dev/null | grep -c "^ok  *$tmp/run/shards ")" 1 "or by its manifest"
printf 'x' | dd of="$bin" bs=1 seek=1030 conv=notrunc 2> /dev/null
ok "a changed byte is found and named" fails 1 "$bin: SHA-256" "$ASSAY" verify "$tmp/run"
truncate -s -2 "$bin"
ok "so is a missing one" fails 1 "$bin: [0-9]* bytes, its manifest says" "$ASSAY" verify "$tmp/run"
rm "$bin"
ok "and a missing file" fails 1 "$bin: missing" "$ASSAY" verify "$tmp/run"
rm "$tmp"/run/shards/*.bin
ok "an artefact without its bulk is sealed" fails 0 '1 sealed' "$ASSAY" verify "$tmp/run"
is "$(grep -c "^sealed  $tmp/run/shards$" "$tmp/out")" 1 "and named"
ok "a folder without manifests is an error" fails 1 'hollow: no manifest' "$ASSAY" verify "$tmp/hollow"
ok "so is a path that is not there" fails 1 'none: no manifest' "$ASSAY" verify "$tmp/none"
echo '{"schema":"assay manifest","version":9}' > "$tmp/run/corpus/manifest.json"
ok "and a manifest of another version" fails 1 'corpus/manifest.json: want manifest version 1, file has 9' "$ASSAY" verify "$tmp/run"
done_testing
