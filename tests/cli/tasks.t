#!/usr/bin/env bash
# Choice tasks as part of a run: eval.tasks in the run file, metrics in the result, a comparison.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/files" "$tmp/data"
printf '%s\n' '[data]' 'kind = corpus' 'docs = 200' 'instruct = none' '[vocab]' 'size = 300' '[model]' 'layers = 1' 'heads = 2' \
    'width = 16' 'context = 64' '[train]' 'tokens = 2K' 'batch = 4' '[eval]' 'documents = false' \
    "tasks = copa=$tmp/data/rows.jsonl, $tmp/data/last.ini=$tmp/data/text.jsonl, ifeval=$tmp/data/if.jsonl" 'shots = 1' 'max_new_tokens = 8' > "$tmp/files/tiny.ini"
printf 'include = tiny.ini\n[data]\nrun = tiny\n[train]\nseed = 2\n' > "$tmp/files/tiny-2.ini"
printf '[task]\ntitle = last\nprompt = {text|but_last_word}\nchoices = {text|last_word}\ngold = 0\nmetric = acc_greedy\n' > "$tmp/data/last.ini"
for i in $(seq 30); do
    echo "{\"query\": \"number $i is\", \"choices\": [\"odd\", \"even\"], \"gold\": $(((i + 1) % 2))}"
done > "$tmp/data/rows.jsonl"
cp "$tmp/data/rows.jsonl" "$tmp/data/rows2.jsonl"
for i in $(seq 12); do echo "{\"text\": \"after $i comes $((i + 1))\"}"; done > "$tmp/data/text.jsonl"
for i in $(seq 8); do
    echo "{\"key\": $i, \"prompt\": \"say $i\", \"instruction_id_list\": [\"punctuation:no_comma\", \"length_constraints:number_words\"]," \
        "\"kwargs\": [{}, {\"relation\": \"at least\", \"num_words\": $((i * 100 - 99))}]}"
done > "$tmp/data/if.jsonl"
go() { make run DEPS=0 BUILD="$BUILD" RUN_FILES="$tmp/files" RUNS_DIR="$tmp/runs" "$@" > "$tmp/log" 2>&1; }

go RUN=tiny
if ! is $? 0 "make run with tasks"; then
    sed 's/^/# /' "$tmp/log" | tail -20
    done_testing
fi
metrics=$("$ASSAY" cat "$tmp/runs/tiny/result.msgpack" | grep -o '"name":"[a-z_]*","task":"[a-z]*"' | tr '\n' ' ')
for m in '"name":"acc","task":"copa"' '"name":"acc_norm_char","task":"copa"' '"name":"acc_greedy","task":"last"' '"name":"nats_answer","task":"last"' \
    '"name":"ifeval_prompt_strict","task":"ifeval"' '"name":"ifeval_prompt_loose","task":"ifeval"' '"name":"ifeval_inst_strict","task":"ifeval"' \
    '"name":"ifeval_inst_loose","task":"ifeval"'; do
    [[ $metrics == *"$m"* ]]
    result $? "the result has $m"
done
is "$("$ASSAY" cat "$tmp/runs/tiny/result.msgpack" | grep -o '"name":"acc","task":"copa"[^[]*"n":[0-9]*' | grep -o '[0-9]*$')" 30 "over all rows"
note='of 8 prompts 8 are checked exactly, 0 approximately, 0 are unsupported and have no value; without answering: empty 0.0000, the prompt echoed 0.1250, a constant sentence 0.1250'
ok "the value of IFEval says over which prompts it is, and what no answers get" sh -c "'$ASSAY' cat '$tmp/runs/tiny/result.msgpack' | grep -qF '$note'"
# Of 8 prompts one asks for a word, the others for more than 8 tokens can have; nobody makes commas of them all.
value() { "$ASSAY" cat "$tmp/runs/tiny/result.msgpack" | grep -o "\"name\":\"$1\",\"task\":\"ifeval\"[^[]*\"value\":[0-9.]*" | grep -o '[0-9.]*$'; }
followed=$("$ASSAY" cat "$tmp/runs/tiny/scores/ifeval.ifeval_inst.msgpack" | grep -o ' y' | wc -l)
is "$("$ASSAY" cat "$tmp/runs/tiny/eval/ifeval.items.msgpack" | grep -c 'no_comma.*number_words')" 8 "the rows of a generate task keep their own constraints"
ok "its answers have a score for each instruction ($followed of 16 followed)" awk "BEGIN {v = $(value ifeval_inst_strict); exit !(v > 0 && v < 1 && (v * 16 - $followed) ^ 2 < 1e-9)}"
ok "more instructions than prompts are followed" awk "BEGIN {exit !($(value ifeval_prompt_strict) <= 0.125)}"
printf 'include = tiny.ini\n[eval]\ntasks = copa=%s/data/rows.jsonl, copa=%s/data/rows2.jsonl\n' "$tmp" "$tmp" > "$tmp/files/twice.ini"
go RUN=twice
ok "one task twice is refused before anything runs" grep -q 'eval.tasks names copa twice' "$tmp/log"
for bad in "capo=$tmp/data/rows.jsonl;task .capo.: neither a task file nor a task of the tool" "copa=$tmp/none.jsonl;the rows of copa, .*none.jsonl, are not there; a path behind .DATA is written with it"; do
    printf 'include = tiny.ini\n[eval]\ntasks = %s\n' "${bad%%;*}" > "$tmp/files/typo.ini"
    go RUN=typo
    ok "before anything runs it says: ${bad#*;}" grep -q "${bad#*;}" "$tmp/log"
    ok "and nothing ran" [ ! -e "$tmp/runs/typo/pretrain" ]
done
for bad in 'exact,acc_exact;score.scorers names exact twice, as exact and as acc_exact: leave one out' 'exact,blue;score.scorers: there is no scorer "blue"; .*exact (acc_exact)'; do
    printf 'include = tiny.ini\n[score]\nscorers = %s\n' "${bad%%;*}" > "$tmp/files/scorers.ini"
    go RUN=scorers
    ok "before anything runs it says: ${bad#*;}" grep -q "${bad#*;}" "$tmp/log"
    ok "and nothing ran" [ ! -e "$tmp/runs/scorers/pretrain" ]
done
printf 'include = tiny.ini\n[eval]\ntasks = copa=$DATA/none.jsonl\n' > "$tmp/files/behind.ini"
go RUN=behind DATA="$tmp/data"
ok "also of rows behind \$DATA" grep -q "the rows of copa, $tmp/data/none.jsonl, are not there; put them there, or name another folder with DATA=folder" "$tmp/log"
go RUN=behind DATA=
ok "and where nobody said where that is" grep -q 'none.jsonl lies outside the tree; say where with DATA=folder' "$tmp/log"
ok "nothing ran" [ ! -e "$tmp/runs/behind/pretrain" ]
printf '[task]\nprompt = {query}\nchoices = {choices}\n' > "$tmp/data/open.ini"
printf 'include = tiny.ini\n[eval]\ntasks = %s/data/open.ini=%s/data/rows.jsonl\n' "$tmp" "$tmp" > "$tmp/files/open.ini"
go RUN=open
ok "a task that says no right choice is refused before anything runs" sh -c "grep -q 'open.ini has no gold, so nothing of it can be scored' '$tmp/log' && ! test -e '$tmp/runs/open/pretrain'"
# ---- what would be found only behind the training
refused() { # words, SET
    go RUN=early SET="$2"
    grep -q "$1" "$tmp/log" && [ ! -e "$tmp/runs/early" ] || { sed 's/^/# /' "$tmp/log"; return 1; }
}
printf 'include = tiny.ini\n[train]\nbackend = cpu\n' > "$tmp/files/early.ini"
ok "rows that lack the task's keys" refused 'doctor: eval.tasks: .*text.jsonl:1: choices: the row has no value' "eval.tasks=copa=$tmp/data/text.jsonl"
ok "a precision that eval does not have here" refused 'doctor: eval.precision: .*fp16' eval.precision=fp16
ok "or tf32" refused 'doctor: eval.precision: .*tf32' eval.precision=tf32
ok "but weights may be read in bf16" quiet "$ASSAY" doctor --config "$tmp/files/early.ini" --set eval.precision=bf16
ok "a model that is not there" refused "doctor: model.from: .*/none: No such" "model.from=$tmp/none"
ok "a window that the model cannot have" refused "doctor: eval.window = 65 is more than .* has, a context of 64" "model.from=$tmp/runs/tiny/pretrain eval.window=65"
ok "nor a stride" refused "doctor: eval.stride = 65 is more than .* has, a context of 64" "model.from=$tmp/runs/tiny/pretrain eval.stride=65"
# ---- a model that brings its vocabulary
"$ASSAY" export-model --model "$tmp/runs/tiny/pretrain/latest" --vocab "$tmp/runs/tiny/vocab.tiktoken" --out "$tmp/hf" > "$tmp/log" 2>&1
printf '%s\n' 'include = tiny.ini' '[model]' "from = $tmp/hf" '[data]' 'docs = 150' > "$tmp/files/brought.ini"
go RUN=brought
is $? 0 "a run that starts at a checkpoint needs its name alone" || sed 's/^/# /' "$tmp/log"
ok "and reads by its vocabulary" sh -c "test ! -e '$tmp/runs/brought/vocab.tiktoken' && grep -qx 'from = $tmp/hf/tokenizer.json' '$tmp/runs/brought/run.ini'"
ok "without a doubt" sh -c "! grep -q 'by its size only' '$tmp/log'"
touch "$tmp/data/rows.jsonl"
before=$(sha256sum "$tmp/runs/tiny/eval/copa.msgpack.manifest.json")
go RUN=tiny
is "$(sha256sum "$tmp/runs/tiny/eval/copa.msgpack.manifest.json")" "$before" "rows that are only newer: nothing runs"
echo '{"query": "number 31 is", "choices": ["odd", "even"], "gold": 0}' >> "$tmp/data/rows.jsonl"
go RUN=tiny
[ "$(sha256sum "$tmp/runs/tiny/eval/copa.msgpack.manifest.json")" != "$before" ]
result $? "another row: the task runs again"
go RUN=tiny-2
is $? 0 "a second run"
"$ASSAY" compare "$tmp/runs/tiny/result.msgpack" "$tmp/runs/tiny-2/result.msgpack" > "$tmp/out" 2>&1
ok "their accuracies compare" grep -q 'acc' "$tmp/out"
ok "and so do the instructions they follow" grep -q 'ifeval_inst_strict' "$tmp/out"
ok "with the prompts they are over" grep -qF "$note" "$tmp/out"
"$ASSAY" compare "$tmp/runs/tiny/result.msgpack" "$tmp/runs/tiny-2/result.msgpack" --format json > "$tmp/out.json" 2>&1
is "$(grep -oF "$note" "$tmp/out.json" | wc -l)" 4 "also in JSON, with each run's strict and loose"
"$ASSAY" report "$tmp/runs/tiny/result.msgpack" "$tmp/runs/tiny-2/result.msgpack" --out "$tmp/r.html" > /dev/null 2>&1
ok "and in the report" grep -qF "$note" "$tmp/r.html"
printf '%s\n' 'include = tiny.ini' '[data]' 'instruct =' '[finetune]' 'epochs = 1' 'seeds = 2' 'template = plain' '[eval]' \
    'windows = false' "tasks = ifeval=$tmp/data/if.jsonl" 'min_p = 0.1' 'temperature = 1' 'repetition_penalty = 1.3' '[score]' 'scorers = acc_exact' > "$tmp/files/tuned.ini"
go RUN=tuned
is $? 0 "a run that fine-tunes two seeds"
ok "both answer" test -s "$tmp/runs/tuned/eval/ifeval-1.msgpack" -a -s "$tmp/runs/tuned/eval/ifeval-2.msgpack" -a ! -e "$tmp/runs/tuned/eval/ifeval.msgpack"
ok "a scorer may be named by its metric" sh -c "'$ASSAY' cat '$tmp/runs/tuned/result.msgpack' | grep -q '\"name\":\"acc_exact\"'"
ok "the metric is their mean" sh -c "'$ASSAY' cat '$tmp/runs/tuned/result.msgpack' | grep -o '\"name\":\"ifeval_inst_strict\".*' | grep -q 'of 16 instructions 16 are checked exactly.*; fine-tuning seeds: [0-9.]* [0-9.]*'"
ok "min_p and the penalty are part of its identity" sh -c "'$ASSAY' cat '$tmp/runs/tuned/result.msgpack' | grep -q 'decoding=temperature 1, top_k 0, top_p 1, seed 1, min_p 0.1, repetition penalty 1.3, at most 8 tokens'"
# ---- a checkpoint with a NaN that one row meets: make says what is wrong, or goes on where it is allowed
cp -rL "$tmp/runs/tiny/pretrain/latest" "$tmp/nan"
cp "$tmp/runs/tiny/vocab.tiktoken" "$tmp/nan"
rm "$tmp/nan/manifest.json" # which speaks of other weights
perl -e 'local $/; open F, "+<:raw", $ARGV[0]; $_ = <F>; my $n = unpack "Q<", $_; my ($o) = substr($_, 8, $n) =~ /"(?:transformer\.)?wpe.weight":\{[^}]*"data_offsets":\[(\d+)/; seek F, 8 + $n + $o + 50 * 16 * 4, 0; print F pack "f<", "nan"' "$tmp/nan/model.safetensors"
{ cat "$tmp/data/rows.jsonl"; perl -e 'print "{\"query\": \"", "number " x 60, "\", \"choices\": [\"odd\", \"even\"], \"gold\": 0}\n"'; } > "$tmp/data/far.jsonl"
printf '%s\n' 'include = tiny.ini' '[data]' 'run = tiny' '[model]' "from = $tmp/nan" '[eval]' 'windows = false' 'shots = 0' "tasks = copa=$tmp/data/far.jsonl" > "$tmp/files/nan.ini"
go RUN=nan
is $? 2 "make run stops at an invalid item"
far=$(($(wc -l < "$tmp/data/far.jsonl") - 1))
ok "and says which it is" grep -q "copa: 1 of $((far + 1)) items are invalid, a log-probability of theirs is no finite number ($far): look at the model.s weights" "$tmp/log"
ok "and make keeps the manifest that lists it" sh -c "! grep -q 'Deleting' '$tmp/log' && grep -A1 '\"invalid_ids\"' '$tmp/runs/nan/eval/copa.msgpack.manifest.json' | grep -q '\"$far\"'"
kept=$(stat -c %i:%Y "$tmp/runs/nan/eval/copa.msgpack")
go RUN=nan
is "$?:$(grep -c 'copa: 1 of' "$tmp/log")" "2:1" "make run again stops again"
go RUN=nan SET=eval.max_invalid=0.1
is $? 0 "a share that is allowed lets it go on"
is "$(stat -c %i:%Y "$tmp/runs/nan/eval/copa.msgpack")" "$kept" "without asking anything again"
ok "bounded in the result" sh -c "'$ASSAY' cat '$tmp/runs/nan/result.msgpack' | grep -q '\"name\":\"acc\",\"task\":\"copa\".*\"n_invalid\":1'"

sed -i 's/^tasks = .*/tasks = copa/' "$tmp/files/tiny.ini"
go RUN=tiny
[ $? != 0 ] && grep -q 'wants TASK=ROWS' "$tmp/log"
result $? "a task without rows is refused"

done_testing
