#!/usr/bin/env bash
# assay eval and assay sample, from the outside: losses, answers, kills, servers, bad input.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'exec 7>&-; rm -rf "$tmp"' EXIT
data=${ASSAY_DATA:-../shared/data}
helper=$PWD/$BUILD/tests/httpd
[ -x "$helper" ] || helper=$BUILD/tests/httpd
# Sum of a number over an artefact's records.
sum() { "$ASSAY" cat "$1" | grep -o "\"$2\":[-0-9.e+]*" | cut -d: -f2 | awk '{s += $1} END {printf "%.9g", s}'; }
fact() { grep -o "\"$2\": [-0-9.e+]*" "$1.manifest.json" | head -1 | awk '{printf "%.9g", $2}'; }
serve() { # script -> $url; ends with the test
    mkfifo "$tmp/in.$1"
    "$helper" "$tmp/$1" --log "$tmp/$1.log" --seconds 120 < "$tmp/in.$1" > "$tmp/$1.port" &
    exec 7> "$tmp/in.$1"
    for _ in $(seq 100); do [ -s "$tmp/$1.port" ] && break; sleep 0.05; done
    url=http://127.0.0.1:$(cat "$tmp/$1.port")
}

# ---- a small chain
quiet "$ASSAY" corpus --out "$tmp/c" --docs 500 --seed 1
quiet "$ASSAY" split --in "$tmp/c/docs.jsonl" --holdout 0.1 --instruct "$tmp/c/instruct.json" --out "$tmp/d"
quiet "$ASSAY" vocab train --in "$tmp/d/train.jsonl" --size 400 --out "$tmp/v.tiktoken"
quiet "$ASSAY" shard --vocab "$tmp/v.tiktoken" --in "$tmp/d/train.jsonl" --test "$tmp/d/test.jsonl" --out "$tmp/s"
printf '%s\n' '[model]' 'layers = 1' 'heads = 2' 'width = 32' 'context = 48' '[train]' 'tokens = 16K' \
    'batch = 8' 'lr = 5e-3' 'threads = 1' '[eval]' 'max_new_tokens = 12' > "$tmp/run.ini"
ok "a small model is trained" quiet "$ASSAY" train --config "$tmp/run.ini" --shards "$tmp/s" --out "$tmp/m"
run=(--config "$tmp/run.ini" --model "$tmp/m")
instruct=("$ASSAY" eval --task instruct "${run[@]}" --vocab "$tmp/v.tiktoken" --items "$tmp/d/instruct_test.msgpack" --template plain)

# ---- windows
ok "eval --task windows" quiet "$ASSAY" eval --task windows "${run[@]}" --shards "$tmp/s" --out "$tmp/e/w.msgpack"
ok "prints one line with unit and denominator" grep -q '^windows: nll_token [0-9.]* nats/token, ppl_token .* bits/byte; [0-9]* tokens in [0-9]* windows of 48' "$tmp/out"
test_tokens=$(grep -o '"test_tokens": [0-9]*' "$tmp/s/manifest.json" | grep -o '[0-9]*')
is "$(sum "$tmp/e/w.msgpack" tokens)" $((test_tokens - 1)) "every token of the test split but the first is counted once"
is "$(sum "$tmp/e/w.msgpack" nats)" "$(fact "$tmp/e/w.msgpack" nats)" "the manifest's nats are the sum of the windows"
is "$(sum "$tmp/e/w.msgpack" bytes)" "$(cat "$tmp/d/test.jsonl" | grep -o '"text":"[^"]*"' | sed 's/^"text":"//; s/"$//' | tr -d '\n' | wc -c)" "the bytes are those of the texts"
for key in slice vocab context window precision; do
    grep -q "\"$key\":" "$tmp/e/w.msgpack.manifest.json" || ok "identity has $key" false
done
ok "and its identity is in the manifest" grep -q '"context": 48' "$tmp/e/w.msgpack.manifest.json"
same=yes
for o in "--threads 1" "--threads 2" "--ranks 2" "--ranks 3 --backend cpu"; do
    # shellcheck disable=SC2086
    quiet "$ASSAY" eval --task windows "${run[@]}" --shards "$tmp/s" --out "$tmp/e/w2.msgpack" $o
    cmp "$tmp/e/w.msgpack" "$tmp/e/w2.msgpack" || same="no: $o"
    rm -f "$tmp"/e/w2*
done
is "$same" yes "the same bytes for any number of threads and ranks"
line=$(cat "$tmp/out")
quiet "$ASSAY" eval --task windows "${run[@]}" --shards "$tmp/s" --out "$tmp/e/w.msgpack"
ok "a second run does nothing" grep -q 'up to date' "$tmp/err"
is "$(cat "$tmp/out")" "$line" "but says its line again"
quiet "$ASSAY" eval --task windows "${run[@]}" --shards "$tmp/s" --out "$tmp/e/w3.msgpack" --start 100 --tokens 130
is "$(sum "$tmp/e/w3.msgpack" tokens)" 130 "a slice counts what was asked for"
ok "and says so in its identity" grep -q '"slice": "100+130 ' "$tmp/e/w3.msgpack.manifest.json"
ok "a slice beyond the split is refused" fails 2 "the split has" "$ASSAY" eval --task windows "${run[@]}" --shards "$tmp/s" --out "$tmp/e/w4.msgpack" --start 99999999
ok "without a file" [ ! -e "$tmp/e/w4.msgpack" ]

# ---- weights read in bf16
ok "precision bf16 is taken on the CPU" quiet "$ASSAY" eval --task windows "${run[@]}" --shards "$tmp/s" --out "$tmp/e/n.msgpack" --precision bf16
ok "and stated for what it is" grep -q '"precision": "bf16 weights"' "$tmp/e/n.msgpack.manifest.json"
ok "other weights, other nats, a little" awk "BEGIN {a = $(fact "$tmp/e/w.msgpack" nats); b = $(fact "$tmp/e/n.msgpack" nats); exit !(a != b && (a - b) ^ 2 < (a / 100) ^ 2)}"
quiet "${instruct[@]}" --precision bf16 --out "$tmp/e/n8.msgpack" --batch 8
quiet "${instruct[@]}" --precision bf16 --out "$tmp/e/n1.msgpack" --batch 1
ok "and part of what answers are" grep -q '"precision": "bf16 weights"' "$tmp/e/n1.msgpack.manifest.json"
ok "answers with them do not depend on the batch either" cmp "$tmp/e/n8.msgpack" "$tmp/e/n1.msgpack"
ok "fp16 is refused by name" fails 2 "on the cpu backend weights are fp32 or bf16: precision fp16: the cpu backend computes in fp32 only; others: cuda (" "$ASSAY" eval --task windows "${run[@]}" --shards "$tmp/s" --out "$tmp/e/x.msgpack" --precision fp16
ok "a penalty is not left out in silence" fails 2 "servers are not asked for a repetition penalty" "$ASSAY" eval --task instruct --model "http://127.0.0.1:9/v1#m" --items "$tmp/d/instruct_test.msgpack" --template plain --repetition-penalty 1.2 --out "$tmp/e/x.msgpack"

# ---- documents
ok "eval --task documents" quiet "$ASSAY" eval --task documents "${run[@]}" --vocab "$tmp/v.tiktoken" --items "$tmp/d/test.jsonl" --out "$tmp/e/d.msgpack"
ok "prints bits per byte and the distance to the oracle" grep -q '^documents: bits_byte [0-9.]*, .*bits a document above the oracle' "$tmp/out"
ok "and the closing EOT's own figure" grep -q ', bits_end [0-9.]*; ' "$tmp/out"
is "$(sum "$tmp/e/d.msgpack" tokens)" $((test_tokens - $(wc -l < "$tmp/d/test.jsonl"))) "ids are counted, ends are not: as many as the shard has without its EOTs"
is "$("$ASSAY" cat "$tmp/e/d.msgpack" | grep -c '"nats_end":[0-9]')" "$(wc -l < "$tmp/d/test.jsonl")" "each document has its end apart"
ok "the rule says so, so that older figures are not compared" grep -q '"rule": "each alone after EOT, end apart' "$tmp/e/d.msgpack.manifest.json"
is "$(sum "$tmp/e/d.msgpack" bytes)" "$(sum "$tmp/e/w.msgpack" bytes)" "per byte of the same texts"
is "$("$ASSAY" cat "$tmp/e/d.msgpack" | grep -c oracle_bits)" "$(wc -l < "$tmp/d/test.jsonl")" "with each document's oracle"
for r in 2 5; do
    quiet "$ASSAY" eval --task documents "${run[@]}" --vocab "$tmp/v.tiktoken" --items "$tmp/d/test.jsonl" --out "$tmp/e/d$r.msgpack" --ranks $r
    ok "documents on $r ranks: the same bytes" cmp "$tmp/e/d.msgpack" "$tmp/e/d$r.msgpack"
    ok "one line of output" [ "$(wc -l <"$tmp/out")" = 1 ]
done
ok "ranks that are asked for different losses are told" fails 1 "rank 1 on .*another loss" bash -c '
    one() { RANK=$1 WORLD_SIZE=2 ASSAY_RENDEZVOUS="$4" "$ASSAY" eval --quiet --task windows --model "$2" --shards "$3" --out "$5" --start $1; }
    one 1 "$@" 2>/dev/null & one 0 "$@"' x "$tmp/m" "$tmp/s" "$tmp/meet" "$tmp/e/other.msgpack"
ok "choices are not shared" fails 2 "shares windows and documents" "$ASSAY" eval --task choice "${run[@]}" --items x --task-file piqa --out "$tmp/e/x.msgpack" --ranks 2
sed 's/"oracle_bits":[0-9.]*/"oracle_bits":9999/' "$tmp/d/test.jsonl" > "$tmp/leak.jsonl"
ok "a loss below what is possible is an error" fails 1 "below what any model can reach" "$ASSAY" eval --task documents "${run[@]}" --vocab "$tmp/v.tiktoken" --items "$tmp/leak.jsonl" --out "$tmp/e/leak.msgpack"
ok "and leaves no result" [ ! -e "$tmp/e/leak.msgpack" ]
{ head -3 "$tmp/d/test.jsonl"; head -1 "$tmp/d/test.jsonl"; } > "$tmp/twice.jsonl"
ok "an id that is there twice is refused with both places" fails 1 "is there twice, in .*twice.jsonl:1 and in .*twice.jsonl:4" "$ASSAY" eval --task documents "${run[@]}" --vocab "$tmp/v.tiktoken" --items "$tmp/twice.jsonl" --out "$tmp/e/leak.msgpack"
ok "by split too, where it is held out" fails 1 "is there twice, in .*twice.jsonl:1 and in" "$ASSAY" split --in "$tmp/d/train.jsonl" --test-in "$tmp/twice.jsonl" --out "$tmp/twice"

# ---- a checkpoint that brings its vocabulary, as other people's folders do
cp -rL "$tmp/m/latest" "$tmp/own"
rm "$tmp/own/manifest.json"
quiet "$ASSAY" vocab train --in "$tmp/d/test.jsonl" --size 270 --out "$tmp/own/tokenizer.json"
own=("${run[@]/"$tmp/m"/"$tmp/own"}")
ok "another vocabulary than the checkpoint's own is refused" fails 2 "the checkpoint brings its own" "$ASSAY" eval --task documents "${own[@]}" --vocab "$tmp/v.tiktoken" --items "$tmp/d/test.jsonl" --out "$tmp/e/own.msgpack"
ok "and shards of another" fails 2 "the checkpoint brings its own" "$ASSAY" eval --task windows "${own[@]}" --shards "$tmp/s" --out "$tmp/e/own.msgpack"
ok "its own is taken without being named" quiet "$ASSAY" eval --task documents "${own[@]}" --items "$tmp/d/test.jsonl" --out "$tmp/e/own.msgpack"
cp "$tmp/v.tiktoken" "$tmp/own/vocab.tiktoken"; rm "$tmp/own/tokenizer.json"
ok "the same one may be named" quiet "$ASSAY" eval --task documents "${own[@]}" --vocab "$tmp/v.tiktoken" --items "$tmp/d/test.jsonl" --out "$tmp/e/own.msgpack"
ok "and its shards are read" quiet "$ASSAY" eval --task windows "${own[@]}" --shards "$tmp/s" --out "$tmp/e/own2.msgpack"
ok "without a doubt" bash -c "! grep -q 'by its size only' '$tmp/err'"
rm "$tmp/own/vocab.tiktoken"
ok "a folder without any takes one of no more ids" quiet "$ASSAY" eval --task documents "${own[@]}" --vocab "$tmp/v.tiktoken" --items "$tmp/d/test.jsonl" --out "$tmp/e/own3.msgpack"
ok "and says what that is worth" grep -q "v.tiktoken: whether its vocabulary is the one that $tmp/own was trained with is known by its size only (400 ids, the model has 400): neither" "$tmp/err"
cp -r "$tmp/s" "$tmp/bare"
rm "$tmp/bare/manifest.json"
ok "so are shards that do not say theirs" quiet "$ASSAY" eval --task windows "${run[@]}" --shards "$tmp/bare" --out "$tmp/e/bare.msgpack"
ok "which is said" grep -q "bare: whether its vocabulary .* is not known: it says neither which it is nor how many ids it has" "$tmp/err"
other="a vocabulary of 300 ids, but $tmp/own has 400, and is not padded from it to a multiple of 64: it was trained with another; give that one"
quiet "$ASSAY" vocab train --in "$tmp/d/test.jsonl" --size 300 --out "$tmp/v300.tiktoken"
ok "one of another size is another" fails 2 "v300.tiktoken: $other" "$ASSAY" eval --task documents "${own[@]}" --vocab "$tmp/v300.tiktoken" --items "$tmp/d/test.jsonl" --out "$tmp/e/own4.msgpack"
quiet "$ASSAY" shard --vocab "$tmp/v300.tiktoken" --in "$tmp/d/train.jsonl" --test "$tmp/d/test.jsonl" --out "$tmp/s300"
quiet "$ASSAY" train --config "$tmp/run.ini" --set train.tokens=1K --set model.vocab=448 --shards "$tmp/s" --out "$tmp/padded"
rm "$tmp/padded/latest/manifest.json"
ok "unless the head is padded" quiet "$ASSAY" eval --task documents --model "$tmp/padded/latest" --vocab "$tmp/v.tiktoken" --items "$tmp/d/test.jsonl" --out "$tmp/e/padded.msgpack"
ok "which is said" grep -q "known by its size only (400 ids, the model has 448)" "$tmp/err"
ok "and so are shards of it" fails 2 "s300: $other" "$ASSAY" eval --task windows "${own[@]}" --shards "$tmp/s300" --out "$tmp/e/own4.msgpack"

# ---- one that does not: its manifest names the vocabulary
quiet "$ASSAY" vocab train --in "$tmp/d/test.jsonl" --size 300 --out "$tmp/v2.tiktoken"
quiet "$ASSAY" shard --vocab "$tmp/v2.tiktoken" --in "$tmp/d/train.jsonl" --test "$tmp/d/test.jsonl" --out "$tmp/s3"
trained='vocabulary [0-9a-f]*, but .* was trained with another, [0-9a-f]* as its manifest says: .* give that one'
ok "documents by another vocabulary than the training's are refused" fails 2 "v2.tiktoken: $trained" "$ASSAY" eval --task documents "${run[@]}" --vocab "$tmp/v2.tiktoken" --items "$tmp/d/test.jsonl" --out "$tmp/e/v2.msgpack"
ok "shards of another" fails 2 "s3: $trained" "$ASSAY" eval --task windows "${run[@]}" --shards "$tmp/s3" --out "$tmp/e/v2.msgpack"
ok "answers" fails 2 "$trained" "${instruct[@]/"$tmp/v.tiktoken"/"$tmp/v2.tiktoken"}" --out "$tmp/e/v2.msgpack"
ok "samples" fails 2 "$trained" "$ASSAY" sample --model "$tmp/m" --vocab "$tmp/v2.tiktoken" --prompt a
ok "serving" fails 2 "$trained" timeout 20 "$ASSAY" serve --model "$tmp/m" --vocab "$tmp/v2.tiktoken" --port 0
ok "exporting" fails 2 "$trained" "$ASSAY" export-model --model "$tmp/m" --vocab "$tmp/v2.tiktoken" --out "$tmp/hf"
cp -rL "$tmp/m/latest" "$tmp/wrong"
cp "$tmp/v2.tiktoken" "$tmp/wrong/vocab.tiktoken"
ok "a wrong file put into the folder too" fails 2 "wrong/vocab.tiktoken: $trained" "$ASSAY" eval --task documents --model "$tmp/wrong" --items "$tmp/d/test.jsonl" --out "$tmp/e/v2.msgpack"
quiet "$ASSAY" export-model --model "$tmp/m" --out "$tmp/hf"
ok "an export without a vocabulary passes the name on" fails 2 "$trained" "$ASSAY" eval --task documents --model "$tmp/hf" --vocab "$tmp/v2.tiktoken" --items "$tmp/d/test.jsonl" --out "$tmp/e/v2.msgpack"
ok "and takes the right one" quiet "$ASSAY" eval --task documents --model "$tmp/hf" --vocab "$tmp/v.tiktoken" --items "$tmp/d/test.jsonl" --out "$tmp/e/v1.msgpack"
quiet "$ASSAY" shard --instruct --vocab "$tmp/v.tiktoken" --in "$tmp/d/instruct_train.msgpack" --val "$tmp/d/instruct_val.msgpack" --template bare --out "$tmp/x"
quiet "$ASSAY" finetune --config "$tmp/run.ini" --set finetune.epochs=1 --init "$tmp/m" --examples "$tmp/x" --out "$tmp/ft"
quiet "$ASSAY" shard --instruct --vocab "$tmp/v2.tiktoken" --in "$tmp/d/instruct_train.msgpack" --val "$tmp/d/instruct_val.msgpack" --template bare --out "$tmp/x2"
ok "examples of another are no food for it" fails 2 "x2: its examples are of vocabulary .* was trained with another" "$ASSAY" finetune --config "$tmp/run.ini" --init "$tmp/m" --examples "$tmp/x2" --out "$tmp/ft2"
ok "a fine-tuned model knows its vocabulary" fails 2 "$trained" "$ASSAY" sample --model "$tmp/ft" --vocab "$tmp/v2.tiktoken" --prompt a
ok "and speaks in it" quiet "$ASSAY" sample --model "$tmp/ft" --vocab "$tmp/v.tiktoken" --prompt a --max-new-tokens 2

# ---- instruct
identity() { perl -0ne 'print $1 if /"identity": (\{[^}]*\})/' "$1.manifest.json" | tr -d ' \n'; }
ok "eval --task instruct" quiet "${instruct[@]}" --out "$tmp/e/r.msgpack"
is "$("$ASSAY" cat "$tmp/e/r.msgpack" | wc -l)" 72 "answers every item"
ok "max_new_tokens comes from the run file" grep -q 'cut at 12 tokens' "$tmp/out"
ok "the journal is gone" [ -z "$(ls "$tmp"/e/r.msgpack.*.journal 2> /dev/null)" ]
quiet "${instruct[@]}" --out "$tmp/e/r1.msgpack" --batch 1
ok "one at a time gives the same bytes" cmp "$tmp/e/r.msgpack" "$tmp/e/r1.msgpack"
quiet "${instruct[@]}" --out "$tmp/e/h.msgpack" --temperature 1 --top-k 20 --batch 1
quiet "${instruct[@]}" --out "$tmp/e/h8.msgpack" --temperature 1 --top-k 20 --batch 8
ok "sampled too" cmp "$tmp/e/h.msgpack" "$tmp/e/h8.msgpack"
quiet "${instruct[@]}" --out "$tmp/e/h2.msgpack" --temperature 1 --top-k 20 --seed 2
ok "another seed gives other answers" bash -c "! cmp -s '$tmp/e/h.msgpack' '$tmp/e/h2.msgpack'"
ok "a prompt that is too long loses its head" quiet "$ASSAY" eval --task instruct "${run[@]}" --vocab "$tmp/v.tiktoken" --items "$tmp/d/instruct_test.msgpack" --template alpaca --out "$tmp/e/long.msgpack"
ok "which is said" grep -q '72 of 72 prompts were longer than the context allows' "$tmp/err"
is "$("$ASSAY" cat "$tmp/e/long.msgpack" | grep -c '"detail":"the prompt lost its first [0-9]* of [0-9]* tokens"')" 72 "and counted in each response"
ok "in the identity" grep -q '"lost_heads": "72 of 72 prompts, to fit a context of 48"' "$tmp/e/long.msgpack.manifest.json"
ok "and as a fact" grep -q '"lost_heads": 72' "$tmp/e/long.msgpack.manifest.json"
is "$(identity "$tmp/e/r.msgpack" | grep -c lost_heads)" 0 "where none was lost the identity says nothing of it"
quiet "${instruct[@]}" --out "$tmp/e/full.msgpack" --max-new-tokens 5000
ok "an answer that the context ends is not cut at its limit" grep -qE '[0-9]+ ended by themselves, 0 cut at 5000 tokens, [1-9][0-9]* ended by the model.s context of 48 tokens' "$tmp/out"
line=$(cat "$tmp/out")
is "$("$ASSAY" cat "$tmp/e/full.msgpack" | grep -c '"detail":"[^"]*the answer ends where the context does, at 48 tokens"')" "$(grep -o '[0-9]* ended by the model' <<< "$line" | grep -o '^[0-9]*')" "the record says it"
quiet "${instruct[@]}" --out "$tmp/e/full.msgpack" --max-new-tokens 5000
is "$(cat "$tmp/out")" "$line" "up to date, it says the line again"
quiet "${instruct[@]}" --out "$tmp/e/stop.msgpack" --stop "e"
is "$("$ASSAY" cat "$tmp/e/stop.msgpack" | grep -c '"text":"[^"]*e[^"]*",')" 0 "eval --stop ends answers before its text"
quiet "${instruct[@]}" --out "$tmp/e/stop2.msgpack" --set eval.stop=e
ok "eval.stop of the run file does the same" cmp "$tmp/e/stop.msgpack" "$tmp/e/stop2.msgpack"
for o in top-k:5 top-p:0.5 min-p:0.3 seed:9; do
    fails 2 "--${o%%:*} is of sampling, and at temperature 0 the likeliest token is taken" "${instruct[@]}" --out "$tmp/e/greedy.msgpack" --${o%%:*} ${o#*:}
    result $? "--${o%%:*} is refused where nothing is sampled"
done
fails 2 'temperature -1 leaves it to a server, and --model is a checkpoint' "${instruct[@]}" --out "$tmp/e/greedy.msgpack" --temperature -1
result $? "so is a temperature that only a server can choose"
journals=0
for k in 1 2 3 4 5; do
    "${instruct[@]}" --out "$tmp/e/k.msgpack" --temperature 1 --top-k 20 --batch 1 > /dev/null 2>&1 &
    pid=$!
    # Until the journal has grown a little (or the run is over), so that the kill is in the middle.
    for _ in $(seq 400); do
        size=$(cat "$tmp"/e/k.msgpack.*.journal 2> /dev/null | wc -c)
        [ "$size" -gt $((k * 1000)) ] && break
        kill -0 $pid 2> /dev/null || break
    done
    kill -9 $pid 2> /dev/null
    wait $pid 2> /dev/null
    ls "$tmp"/e/k.msgpack.*.journal > /dev/null 2>&1 && journals=$((journals + 1))
done
ok "some of five kills left a journal ($journals)" [ $journals -gt 0 ]
quiet "${instruct[@]}" --out "$tmp/e/k.msgpack" --temperature 1 --top-k 20 --batch 1
ok "five kills and a rerun: the same bytes" cmp "$tmp/e/h.msgpack" "$tmp/e/k.msgpack"
: > "$tmp/e/k.msgpack.0123456789ab.journal"
quiet "${instruct[@]}" --out "$tmp/e/k.msgpack" --temperature 1 --top-k 20 --seed 3
ok "a journal of other options is named" grep -q 'k.msgpack.0123456789ab.journal beside .* holds answers of another model, items or options and is not read' "$tmp/err"

# ---- other models
replay() { "$ASSAY" eval --task instruct --model "replay:$1" --items "$tmp/d/instruct_test.msgpack" --out "$2" "${@:3}"; }
ok "a replay answers" quiet replay "$tmp/e/r.msgpack" "$tmp/e/p.msgpack"
ok "with what was recorded" cmp "$tmp/e/p.msgpack" "$tmp/e/r.msgpack"
ok "its line claims no limit of tokens" grep -q '[0-9]* cut$' "$tmp/out"
is "$(identity "$tmp/e/p.msgpack")" "$(identity "$tmp/e/r.msgpack")" "its identity is that of the recorded answers"
quiet replay "$tmp/e/p.msgpack" "$tmp/e/pp.msgpack" --config "$tmp/run.ini" --set eval.max_new_tokens=3
is "$(identity "$tmp/e/pp.msgpack")" "$(identity "$tmp/e/r.msgpack")" "that of a replay of a replay too, whatever a run file says"
for o in temperature:1 max-new-tokens:3 template:alpaca top-k:3 stop:x threads:1 precision:bf16 concurrency:2; do
    ok "what a replay can't do is refused: --${o%:*}" fails 2 "a replay gives what was recorded, so --${o%:*} is not read" replay "$tmp/e/r.msgpack" "$tmp/e/x.msgpack" --${o%:*} ${o#*:}
done
echo '[{"id": "1", "instruction": "a", "input": "", "output": "b", "model_response": "c"}, {"id": "2", "instruction": "d", "input": "", "output": "e", "model_response": "f"}]' > "$tmp/given.json"
quiet "$ASSAY" eval --task instruct --model "replay:$tmp/given.json" --items "$tmp/given.json" --out "$tmp/e/given.msgpack"
is "$(identity "$tmp/e/given.msgpack" | grep -oE '"(template|decoding|precision)":"unknown"' | sort | tr '\n' ' ')" '"decoding":"unknown" "precision":"unknown" "template":"unknown" ' "of answers without a manifest nothing is made up"
sed 's/"instruction": "a"/"instruction": "other"/' "$tmp/given.json" > "$tmp/other.json"
quiet "$ASSAY" eval --task instruct --model "replay:$tmp/e/given.msgpack" --items "$tmp/other.json" --out "$tmp/e/other.msgpack"
ok "recorded answers to other items are told apart" sh -c "grep -q 'the recorded answers were to other items' '$tmp/err' && grep -q '\"items\": \"unknown\"' '$tmp/e/other.msgpack.manifest.json'"
printf '%s\n' 'on POST /v1/chat/completions' 'times 10' 'body {"model":"m","choices":[{"message":{"content":" one "},"finish_reason":"stop"}]}' \
    'on POST /v1/chat/completions' 'times 4' 'status 500' 'body {"error":{"message":"too tired"}}' \
    'on POST /v1/chat/completions' 'body {"model":"m","choices":[{"message":{"content":"two"},"finish_reason":"stop"}]}' > "$tmp/script"
serve script
remote=("$ASSAY" eval --task instruct --model "$url/v1#m" --items "$tmp/d/instruct_test.msgpack" --template plain --concurrency 2 --retries 0 --out "$tmp/e/net.msgpack")
ok "a server that fails on some items: incomplete" fails 4 '4 of 72 items are not answered' "${remote[@]}"
ok "and no output yet" [ ! -e "$tmp/e/net.msgpack" ]
ok "run again, it is complete" quiet "${remote[@]}"
is "$(wc -l < "$tmp/script.log")" 76 "and only the failed ones were asked again"
is "$("$ASSAY" cat "$tmp/e/net.msgpack" | grep -c '"text":"one"')" 10 "answers are trimmed"
exec 7>&-
printf '%s\n' 'on POST /v1/chat/completions' 'times 12' 'status 400' 'body {"error":{"message":"too long"}}' \
    'on POST /v1/chat/completions' 'times 10' 'body {"model":"m","choices":[{"message":{"content":"one"},"finish_reason":"stop"}]}' \
    'on POST /v1/chat/completions' 'times 13' 'status 400' 'body {"error":{"message":"too long"}}' \
    'on POST /v1/chat/completions' 'body {"model":"m","choices":[{"message":{"content":"two"},"finish_reason":"stop"}]}' > "$tmp/refuse"
serve refuse
ok "what a server refuses for good is recorded so" quiet "$ASSAY" eval --task instruct --model "$url/v1#m" --items "$tmp/d/instruct_test.msgpack" --concurrency 1 --out "$tmp/e/refuse.msgpack"
is "$("$ASSAY" cat "$tmp/e/refuse.msgpack" | grep -c '"finish":"error"')" 25 "as failed"
first=$("$ASSAY" cat "$tmp/e/refuse.msgpack" | grep '"finish":"error"' | head -1 | grep -o '"item":"[^"]*"' | cut -d'"' -f4)
ok "the items are named, the first with its reason" grep -q "25 of 72 items have no answer and are recorded so: $first (after 1 try: HTTP 400: too long), .* and 5 more" "$tmp/err"
is "$(tr -d ' \n' < "$tmp/e/refuse.msgpack.manifest.json" | grep -o '"failed_ids":\[[^]]*' | tr ',' '\n' | wc -l)" 25 "and listed in the manifest"
exec 7>&-

printf 'on POST /v1/chat/completions\nbody {"choices":[{"message":{"content":"from afar"},"finish_reason":"stop"}]}\n' > "$tmp/far"
serve far
is "$("$ASSAY" sample --model "$url/v1#m" --prompt hello 2> "$tmp/err")" "from afar" "sample asks a server too"
ok "but not with ids" fails 2 'not ids' "$ASSAY" sample --model "$url/v1#m" --prompt-ids 1
exec 7>&-

# ---- sample
is "$("$ASSAY" sample --model "$tmp/m" --prompt-ids 5,6 --ids --max-new-tokens 4 2> "$tmp/err" | tr ',' '\n' | wc -l)" 4 "sample --ids prints ids"
text=("$ASSAY" sample --model "$tmp/m" --vocab "$tmp/v.tiktoken" --prompt "The home of" --max-new-tokens 16 --temperature 1)
a=
for seed in $(seq 40); do # the small model often ends at once
    a=$("${text[@]}" --seed "$seed" 2> "$tmp/err" | tee "$tmp/out")
    [ ${#a} -ge 16 ] && break
done
ok "sample continues a text (\"$a\")" [ ${#a} -ge 16 ]
ok "in valid UTF-8" bash -c "iconv -f utf-8 -t utf-8 '$tmp/out' > '$tmp/utf8'"
is "$("${text[@]}" --seed "$seed" 2> "$tmp/err")" "$a" "the same seed, the same text"
stop=${a:6:5}
is "$("${text[@]}" --seed "$seed" --stop "$stop" 2> "$tmp/err")" "${a%%"$stop"*}" "--stop ends before its text, across tokens"
ok "an empty prompt begins at EOT" quiet "$ASSAY" sample --model "$tmp/m" --vocab "$tmp/v.tiktoken" --prompt "" --max-new-tokens 3
ok "an id beyond the model is refused" fails 2 '"400" is no id below 400' "$ASSAY" sample --model "$tmp/m" --prompt-ids 1,400 --ids
ok "an empty stop is refused" fails 2 "no text ends there" "$ASSAY" sample --model "$tmp/m" --prompt a --stop ''
ok "the context may end it" quiet "$ASSAY" sample --model "$tmp/m" --prompt-ids 5,6 --ids --max-new-tokens 400
ok "which is said" grep -q 'the context of 48 tokens is full: it ends after 47 of 400 new tokens' "$tmp/err"
ok "two prompts are refused" fails 2 'two prompts' "$ASSAY" sample --model "$tmp/m" --prompt a --prompt-ids 1
if [ -d "$data/model/tiny-random-gpt2" ]; then
    is "$("$ASSAY" sample --model "$data/model/tiny-random-gpt2" --prompt-ids 799 --ids --max-new-tokens 12)" 641,641,641,641,641,622,622,622,622,622,622,622 "sample gives the published greedy ids"
else
    skip "tiny-random-gpt2"
fi

# ---- bad input
ok "no such model" fails 1 'no/such' "$ASSAY" eval --task windows --model no/such --shards "$tmp/s" --out "$tmp/e/x.msgpack"
ok "a folder that is no checkpoint" fails 1 "$tmp/d" "$ASSAY" eval --task windows --model "$tmp/d" --shards "$tmp/s" --out "$tmp/e/x.msgpack"
ok "no shards" fails 1 'no/shards' "$ASSAY" eval --task windows "${run[@]}" --shards no/shards --out "$tmp/e/x.msgpack"
for spec in openai:x ollama:x http://127.0.0.1:9/v1#m "replay:$tmp/e/r.msgpack"; do
    ok "a loss of ${spec%%:*} is refused by name" fails 2 "needs a checkpoint: a server or a replay gives no" "$ASSAY" eval --task windows --model "$spec" --shards "$tmp/s" --out "$tmp/e/x.msgpack"
    ok "documents too" fails 2 "documents needs a checkpoint" "$ASSAY" eval --task documents --model "$spec" --items "$tmp/d/test.jsonl" --out "$tmp/e/x.msgpack"
done
unread() { # task option value
    ok "$1 does not read $2" fails 2 "--task $1 does not read $2: leave it out" "$ASSAY" eval --task "$1" --model "$tmp/m" --out "$tmp/e/x.msgpack" "$2" "$3"
}
for o in window:8 stride:4 start:1 tokens:100 batch:2 template:plain shots:1 items-out:x concurrency:1 shards:x; do unread documents --${o%:*} ${o#*:}; done
for o in temperature:1 task-file:copa shots:2 stop:x items:x vocab:x seed:2 max-requests:5; do unread windows --${o%:*} ${o#*:}; done
for o in window:8 stride:4 shards:x template:plain stop:x top-p:0.5 max-new-tokens:3; do unread choice --${o%:*} ${o#*:}; done
for o in concurrency:2 timeout:3 retries:1 max-requests:5; do
    for t in instruct choice; do
        ok "$t of a checkpoint does not read --${o%:*}" fails 2 "a checkpoint, which is asked on this machine, so --${o%:*} is not read" "$ASSAY" eval --task $t --model "$tmp/m" --items x --task-file copa --out "$tmp/e/x.msgpack" --${o%:*} ${o#*:}
    done
done
for o in batch:2 vocab:x threads:1 precision:bf16; do
    ok "a server does not read --${o%:*}" fails 2 "a server, so --${o%:*} is not read" "$ASSAY" eval --task instruct --model http://127.0.0.1:9/v1#m --items x --out "$tmp/e/x.msgpack" --${o%:*} ${o#*:}
done
ok "an empty stop string is refused" fails 2 "[-][-]stop '': no text ends there" "$ASSAY" eval --task instruct "${run[@]}" --items x --stop '' --out "$tmp/e/x.msgpack"
for o in shots-from:x tokens:5 hardware:x; do unread instruct --${o%:*} ${o#*:}; done
ok "--shots-from without --shots" fails 2 "read with --shots only" "$ASSAY" eval --task choice --model "$tmp/m" --shots-from x --out "$tmp/e/x.msgpack"
ok "top_p 0 is no filter but a mistake" fails 2 "top-p.*a number above 0 and up to 1" "$ASSAY" eval --task instruct "${run[@]}" --items x --top-p 0 --out "$tmp/e/x.msgpack"
ok "for sample too" fails 2 "top-p.*a number above 0 and up to 1" "$ASSAY" sample --model "$tmp/m" --prompt a --top-p 0
ok "and in a run file" fails 2 "top_p" "$ASSAY" eval --task windows "${run[@]}" --set eval.top_p=0 --shards "$tmp/s" --out "$tmp/e/x.msgpack"
ok "no --shards" fails 2 'needs --shards' "$ASSAY" eval --task windows "${run[@]}" --out "$tmp/e/x.msgpack"
ok "an unknown task" fails 2 'windows' "$ASSAY" eval --task wnidows "${run[@]}" --out "$tmp/e/x.msgpack"
cp -r "$tmp/m/latest/" "$tmp/cut"
head -c 20000 "$tmp/m/latest/model.safetensors" > "$tmp/cut/model.safetensors"
ok "a cut checkpoint" fails 1 'model.safetensors' "$ASSAY" eval --task windows --model "$tmp/cut" --shards "$tmp/s" --out "$tmp/e/x.msgpack"
quiet "$ASSAY" vocab train --in "$tmp/d/train.jsonl" --size 500 --out "$tmp/big.tiktoken"
ok "a vocabulary larger than the model" fails 1 'the model' "$ASSAY" eval --task documents "${run[@]}" --vocab "$tmp/big.tiktoken" --items "$tmp/d/test.jsonl" --out "$tmp/e/x.msgpack"
quiet "$ASSAY" shard --vocab "$tmp/big.tiktoken" --in "$tmp/d/train.jsonl" --test "$tmp/d/test.jsonl" --out "$tmp/s2"
ok "shards of another vocabulary" fails 1 'has ids below 500' "$ASSAY" eval --task windows "${run[@]}" --shards "$tmp/s2" --out "$tmp/e/x.msgpack"
: > "$tmp/empty.jsonl"
printf '%s\n' '{"text": ""}' '{"text": ""}' > "$tmp/blank.jsonl"
ok "empty texts only" fails 1 'blank.jsonl holds empty texts only' "$ASSAY" eval --task documents "${run[@]}" --vocab "$tmp/v.tiktoken" --items "$tmp/blank.jsonl" --out "$tmp/e/x.msgpack"
ok "have no loss and no manifest" [ ! -e "$tmp/e/x.msgpack.manifest.json" ]
echo "a letter" > "$tmp/e/letter.txt"
ok "somebody's file is not written over" fails 2 "letter.txt is there and not a record file of this tool: take another --out" "$ASSAY" eval --task documents "${run[@]}" --vocab "$tmp/v.tiktoken" --items "$tmp/d/test.jsonl" --out "$tmp/e/letter.txt"
ok "nor by windows" fails 2 "letter.txt is there and not a record file" "$ASSAY" eval --task windows "${run[@]}" --shards "$tmp/s" --out "$tmp/e/letter.txt"
ok "nor by answers" fails 2 "letter.txt is there and not a record file" "${instruct[@]}" --out "$tmp/e/letter.txt"
is "$(cat "$tmp/e/letter.txt"; ls "$tmp/e" | grep -c letter)" "a letter
1" "and nothing lies beside it"
echo '{"text": "The home of"}' >> "$tmp/blank.jsonl"
ok "beside others they count as documents" quiet "$ASSAY" eval --task documents "${run[@]}" --vocab "$tmp/v.tiktoken" --items "$tmp/blank.jsonl" --out "$tmp/e/blank.msgpack"
ok "of which only the end is predicted" grep -q 'bits_end [0-9.]*; 3 documents, ' "$tmp/out"
mkdir "$tmp/foreign"
cp "$tmp"/s/*.bin "$tmp/foreign"
ok "shards without a manifest are cut by the model's EOT" quiet "$ASSAY" eval --task windows "${run[@]}" --shards "$tmp/foreign" --out "$tmp/e/foreign.msgpack"
is "$(grep -o '[0-9]* documents' "$tmp/out")" "$(wc -l < "$tmp/d/test.jsonl") documents" "into as many documents as there are"
cp -rL "$tmp/m/latest" "$tmp/endless"; rm "$tmp/endless/manifest.json"
sed -i '/[be]os_token_id/d' "$tmp/endless/config.json"
ok "where nobody knows an EOT" quiet "$ASSAY" eval --task windows --model "$tmp/endless" --shards "$tmp/foreign" --out "$tmp/e/endless.msgpack"
ok "their number is unknown" sh -c "grep -q 'documents unknown$' '$tmp/out' && grep -q '\"documents\": null' '$tmp/e/endless.msgpack.manifest.json'"
ok "no documents" fails 1 'empty.jsonl' "$ASSAY" eval --task documents "${run[@]}" --vocab "$tmp/v.tiktoken" --items "$tmp/empty.jsonl" --out "$tmp/e/x.msgpack"
ok "a key that needs the environment" fails 2 'OPENAI_API_KEY' env -u OPENAI_API_KEY "$ASSAY" eval --task instruct --model openai:x --items "$tmp/d/instruct_test.msgpack" --template plain --out "$tmp/e/x.msgpack"
ok "an unknown template" fails 2 'no-template' "$ASSAY" eval --task instruct "${run[@]}" --vocab "$tmp/v.tiktoken" --items "$tmp/d/instruct_test.msgpack" --template no-template --out "$tmp/e/x.msgpack"
for fault in write:1 sync:1 rename:1; do
    ok "a disk that fails ($fault) is an error" fails 1 'x.msgpack' env ASSAY_FAULT=$fault "$ASSAY" eval --task windows "${run[@]}" --shards "$tmp/s" --out "$tmp/e/x.msgpack"
    ok "and no manifest says otherwise" [ ! -e "$tmp/e/x.msgpack.manifest.json" ]
done
rm -f "$tmp/e/x.msgpack" "$tmp"/e/x.msgpack.*.journal # what was computed is kept: loss_resume.t
ok "none of them left a file" [ -z "$(ls "$tmp"/e/x* 2> /dev/null)" ]
done_testing
