#!/usr/bin/env bash
# assay shard, from the outside: llm.c's layout, the held-out split, reruns, kill -9, a full disk.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
shard() { "$ASSAY" shard --vocab "$tmp/v.tiktoken" "$@" 2> "$tmp/err"; }
fact() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1/manifest.json" | head -1; }
words() { od -An -v -t u2 -j "$2" -N "$3" "$1" | tr -s ' \n' '  ' | sed 's/^ //; s/ $//'; }
same() { # two shard folders, volatile fields left out
    diff -r -x manifest.json "$1" "$2" && diff <(sed '/"volatile"/,$d; /"path": ".*jsonl"/d' "$1/manifest.json") \
        <(sed '/"volatile"/,$d; /"path": ".*jsonl"/d' "$2/manifest.json")
}

printf '{"id":"a","text":"abab"}\n{"id":"b","text":""}\n{"id":"c","text":"x<|endoftext|>y"}\n' > "$tmp/three.jsonl"
printf 'ab ab ab ab ab\n' > "$tmp/ab.txt"
"$ASSAY" vocab train --in "$tmp/ab.txt" --size 258 --out "$tmp/v.tiktoken" 2> /dev/null
ok "documents become shards" shard --in "$tmp/three.jsonl" --holdout 0 --out "$tmp/s"
f=$tmp/s/shard_train_000000.bin
is "$(od -An -t d4 -N 12 "$f" | tr -s ' ')" " 20240520 1 20" "the header is llm.c's: magic, version, count"
is "$(stat -c %s "$f")" $((1024 + 2 * 20)) "1024 bytes and two for each token"
is "$(words "$f" 1024 10)" "257 256 256 257 257" "end-of-text in front of each document, an empty one too"
is "$(words "$f" 1034 30)" "120 60 124 101 110 100 111 102 116 101 120 116 124 62 121" "special text in a document is text"
is "$(fact "$tmp/s" train_docs) $(fact "$tmp/s" train_bytes) $(fact "$tmp/s" train_tokens) $(fact "$tmp/s" test_tokens)" "3 19 20 0" \
    "the manifest counts documents, bytes and tokens"
is "$(sed -n '/token_bytes/,/\]/p' "$tmp/s/manifest.json" | grep -c '^ *[012],\{0,1\}$')" 258 "and knows the bytes of each id"
is "$(sed -n '/token_bytes/,/\]/p' "$tmp/s/manifest.json" | tail -3 | tr -d ' ,\n')" "20]" "two of ab, none of end-of-text"

# A larger set of documents of our own.
awk 'BEGIN { x = 11; for (d = 0; d < 6000; d++) { t = ""; for (w = 0; w < 120; w++) {
    x = (x * 16807) % 2147483647; n = 1 + x % 6; s = "";
    for (k = 0; k < n; k++) { x = (x * 16807) % 2147483647; s = s substr("etaoinshrdlucmfw", 1 + x % 16, 1) }
    t = t s " " } printf "{\"id\":\"d%d\",\"text\":\"%s\"}\n", d, t } }' > "$tmp/docs.jsonl"
"$ASSAY" vocab train --in "$tmp/docs.jsonl" --size 600 --out "$tmp/v.tiktoken" 2> /dev/null
ok "with a held-out share" shard --in "$tmp/docs.jsonl" --holdout 0.1 --shard-tokens 500K --out "$tmp/ref"
train=$(fact "$tmp/ref" train_docs) test=$(fact "$tmp/ref" test_docs)
ok "every document is in one split, about a tenth in test ($test)" [ $((train + test)) = 6000 -a "$test" -gt 480 -a "$test" -lt 720 ]
is "$(ls "$tmp/ref" | grep -c train)" $((($(fact "$tmp/ref" train_tokens) + 499999) / 500000)) "files hold --shard-tokens each"
last=$(ls "$tmp/ref"/shard_train_* | tail -1)
is "$(($(stat -c %s "$tmp/ref/shard_train_000000.bin") - 1024))" 1000000 "the first is full"
touch -d 2001-01-01 "$last"
shard --in "$tmp/docs.jsonl" --holdout 0.1 --shard-tokens 500K --out "$tmp/ref"
ok "a second call does nothing" [ "$(stat -c %Y "$last")" -lt 1000000000 ]
tac "$tmp/docs.jsonl" > "$tmp/tac.jsonl"
shard --in "$tmp/tac.jsonl" --holdout 0.1 --shard-tokens 500K --out "$tmp/tac"
is "$(fact "$tmp/tac" test_docs) $(fact "$tmp/tac" test_tokens)" "$test $(fact "$tmp/ref" test_tokens)" "the split is by id, not by place"
sed 's/"text":"/&zz /' "$tmp/docs.jsonl" > "$tmp/zz.jsonl"
shard --in "$tmp/zz.jsonl" --holdout 0.1 --shard-tokens 500K --out "$tmp/tac"
is "$(fact "$tmp/tac" test_docs)" "$test" "and not by text"
shard --in "$tmp/zz.jsonl" --holdout 0.1 --shard-tokens 500K --out "$tmp/tac" --verbose
ok "the same again is up to date" grep -q 'up to date' "$tmp/err"
shard --in "$tmp/zz.jsonl" --holdout 0.1 --shard-tokens 500K --out "$tmp/tac" --verbose --pattern llama3
ok "the same vocabulary with another pattern is not" [ "$(grep -c 'up to date' "$tmp/err")" = 0 ]
gzip -c "$tmp/docs.jsonl" > "$tmp/docs.jsonl.gz"
shard --in "$tmp/docs.jsonl.gz" --holdout 0.1 --shard-tokens 500K --out "$tmp/gz"
ok "compressed documents give the same shards" diff -r -x manifest.json "$tmp/ref" "$tmp/gz"
is "$(fact "$tmp/gz" text_hash)" "$(fact "$tmp/ref" text_hash)" "and the same hash of their text"
head -5500 "$tmp/docs.jsonl" > "$tmp/in.jsonl"
tail -500 "$tmp/docs.jsonl" > "$tmp/out.jsonl"
shard --in "$tmp/in.jsonl" --test "$tmp/out.jsonl" --out "$tmp/given"
is "$(fact "$tmp/given" train_docs) $(fact "$tmp/given" test_docs)" "5500 500" "--test is the whole test split"
shard --in "$tmp/in.jsonl" --test "$tmp/out.jsonl" --out "$tmp/given" --shard-tokens 100K
many=$(ls "$tmp/given" | grep -c train)
shard --in "$tmp/in.jsonl" --test "$tmp/out.jsonl" --out "$tmp/given"
ok "no shard of an earlier run stays ($many before)" [ "$many" -gt 2 -a "$(ls "$tmp/given" | grep -c train)" = 1 ]
is "$(find "$tmp" -name '.shard*' | wc -l)" 0 "nothing hidden stays either"

# Killed at any moment: no manifest, no visible half; the next call ends with the same bytes.
rounds=5
[ -n "${LONG:-}" ] && rounds=20
killed=0 damage=0
took=$(sed -n 's/^ *"seconds": \([0-9.]*\).*/\1/p' "$tmp/ref/manifest.json")
mkdir -p "$tmp/kill"
for i in $(seq $rounds); do
    rm -rf "$tmp/kill"
    "$ASSAY" shard --vocab "$tmp/v.tiktoken" --in "$tmp/docs.jsonl" --holdout 0.1 --shard-tokens 500K --out "$tmp/kill" 2> /dev/null &
    pid=$!
    sleep "$(awk "BEGIN { print $took * ($i - 0.5 + $((RANDOM % 100)) / 200) / $rounds }")"
    kill -9 $pid 2> /dev/null
    wait $pid 2> /dev/null
    if [ ! -e "$tmp/kill/manifest.json" ]; then
        killed=$((killed + 1))
        seen=$(ls "$tmp/kill" 2> /dev/null | grep -c 'bin$')
        [ "$seen" = 0 ] || [ "$seen" = "$(ls "$tmp/ref" | grep -c 'bin$')" ] ||
            { damage=$((damage + 1)); echo "# $seen shards were to be seen"; }
    fi
    shard --in "$tmp/docs.jsonl" --holdout 0.1 --shard-tokens 500K --out "$tmp/kill" && same "$tmp/ref" "$tmp/kill" &&
        [ -z "$(find "$tmp/kill" -name '.*' -type f)" ] || damage=$((damage + 1))
done
ok "kill -9 at $rounds moments ($killed before the end): the rerun has the same bytes and nothing more" [ $damage = 0 ]
ok "and some of them were before the end" [ $killed -gt 0 ]

# The n-th write, sync or rename fails.
bad=0
for fault in write:1 write:2 write:3 sync:1 sync:2 rename:1 rename:2 rename:3; do
    rm -rf "$tmp/fault"
    ASSAY_FAULT=$fault "$ASSAY" shard --vocab "$tmp/v.tiktoken" --in "$tmp/docs.jsonl" --holdout 0.1 --shard-tokens 500K --out "$tmp/fault" 2> "$tmp/err"
    rc=$?
    [ $rc = 1 ] && [ -s "$tmp/err" ] && [ ! -e "$tmp/fault/manifest.json" ] && [ -z "$(find "$tmp/fault" -name '*.bin')" ] ||
        { bad=$((bad + 1)); echo "# $fault: exit $rc, $(cat "$tmp/err"), $(ls -A "$tmp/fault")"; }
done
ok "a disk that fails is an error, and leaves no shard" [ $bad = 0 ]

# Instructions.
cat > "$tmp/items.json" <<'JSON'
[{"instruction": "Say ab.", "input": "", "output": "ab ab"}, {"instruction": "Say it.", "input": "x", "output": "x"}]
JSON
printf 'Q {instruction}{?input}\n{input}{/input}\nA' > "$tmp/template"
ok "instructions become example shards" shard --instruct --in "$tmp/items.json" --val "$tmp/items.json" --template "$tmp/template" --out "$tmp/x"
f=$tmp/x/train.bin
n=$(od -An -t u8 -j 1040 -N 8 "$f" | tr -d ' ')
is "$(od -An -t d4 -N 16 "$f" | tr -s ' ')" " 20261130 1 2 600" "the header: magic, version, examples, vocabulary"
prompt=$(printf 'Q Say ab.\nA' | "$ASSAY" encode --vocab "$tmp/v.tiktoken")
answer=$(printf 'ab ab' | "$ASSAY" encode --vocab "$tmp/v.tiktoken")
first=$(od -An -t u8 -j 1032 -N 8 "$f" | tr -d ' ')
is "$(od -An -v -t u4 -j 1048 -N $((first * 4)) "$f" | tr -s ' \n' '  ' | sed 's/^ //; s/ $//')" "$prompt $answer 599" \
    "an example is the prompt's ids, the answer's ids, end-of-text"
is "$(od -An -v -t u1 -j $((1048 + 4 * n)) -N "$first" "$f" | tr -d ' \n')" \
    "$(for i in $prompt; do printf 0; done; for i in $answer 599; do printf 1; done)" "the mask is 1 on the answer and the end"
ok "val.bin is there as well" cmp "$f" "$tmp/x/val.bin"
echo '[{"id":"q7","instruction":"a","output":""}]' > "$tmp/none.json"
ok "an item without an answer is named" fails 1 'none.json: item q7: ' "$ASSAY" shard --instruct --vocab "$tmp/v.tiktoken" --in "$tmp/none.json" --out "$tmp/y"
ok "and nothing is written" [ ! -e "$tmp/y/train.bin" -a ! -e "$tmp/y/manifest.json" ]

# Bad input.
ok "a missing document file" fails 1 'nowhere.jsonl' "$ASSAY" shard --vocab "$tmp/v.tiktoken" --in "$tmp/nowhere.jsonl" --out "$tmp/z"
ok "a missing vocabulary" fails 1 'nowhere.tiktoken' "$ASSAY" shard --vocab "$tmp/nowhere.tiktoken" --in "$tmp/three.jsonl" --out "$tmp/z"
printf '{"id":"a","text":"x"}\n{"id":"b","txt":"x"}\n' > "$tmp/row.jsonl"
ok "a row without a text has file and line" fails 1 'row.jsonl:2' "$ASSAY" shard --vocab "$tmp/v.tiktoken" --in "$tmp/row.jsonl" --out "$tmp/z"
printf 'a\377' > "$tmp/bad.txt"
ok "bad UTF-8 is refused when it shall be" fails 1 'bad.txt' "$ASSAY" shard --vocab "$tmp/v.tiktoken" --in "$tmp/bad.txt" --bad-utf8 error --out "$tmp/z"
ok "a share that leaves nothing to train on" fails 1 'held out' "$ASSAY" shard --vocab "$tmp/v.tiktoken" --in "$tmp/three.jsonl" --holdout 0.999 --out "$tmp/z"
ok "a name with a folder is a usage error" fails 2 'name' "$ASSAY" shard --vocab "$tmp/v.tiktoken" --in "$tmp/three.jsonl" --name a/b --out "$tmp/z"
ok "--val without --instruct too" fails 2 'instruct' "$ASSAY" shard --vocab "$tmp/v.tiktoken" --in "$tmp/three.jsonl" --val "$tmp/three.jsonl" --out "$tmp/z"
ok "none of these left a shard or a manifest" [ -z "$(find "$tmp/z" -type f 2> /dev/null)" ]
done_testing
