#!/usr/bin/env bash
# Choices, export and loading from the outside, against lm-evaluation-harness's and transformers' own
# numbers (tests/golden/lm_eval.jsonl, made by tests/parity/lm_eval_choice.py), and faults.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
data=${ASSAY_DATA:-../shared/data}
if [ ! -f "$data/model/tiny-random-gpt2/model.safetensors" ]; then
    skip "model/tiny-random-gpt2"
    done_testing
fi
mkdir "$tmp/m"
cp tests/golden/tiny-gpt2/*.json "$data/model/tiny-random-gpt2/model.safetensors" "$tmp/m"
choice() { # task rows out options...
    local t=$1 rows=$2 out=$3
    shift 3
    "$ASSAY" eval --task choice --model "$tmp/m" --task-file "pipelines/tasks/$t.ini" --items "$rows" --out "$out" "$@"
}

# ---- against lm-evaluation-harness, item by item
for t in piqa copa winogrande; do
    head -60 "$data/eval/$t.jsonl" > "$tmp/$t.jsonl"
    ok "$t is asked" quiet choice $t "$tmp/$t.jsonl" "$tmp/$t.msgpack" --items-out "$tmp/$t.items.msgpack"
    ok "the line says what it is" grep -q "^$t: acc 0.[0-9]*, acc_norm_char .*; 60 items$" "$tmp/out"
    grep "\"task\": \"$t\"" tests/golden/lm_eval.jsonl > "$tmp/want"
    "$ASSAY" cat "$tmp/$t.msgpack" > "$tmp/have"
    is "$(paste -d'|' "$tmp/want" "$tmp/have" | perl -ne '
        my ($w, $h) = split /\|/;
        my @w = $w =~ /"logprob": \[([^\]]*)\]/ ? split(/, /, $1) : ();
        my @h = $h =~ /"choice_logprob":\[([^\]]*)\]/ ? split(/,/, $1) : ();
        my ($acc) = $w =~ /"acc": ([0-9.]+)/;
        $bad++ if @w != 2 || @h != 2 || abs($w[0] - $h[0]) > 1e-3 || abs($w[1] - $h[1]) > 1e-3;
        $bad++ if ($w[0] > $w[1]) != ($h[0] > $h[1]);
        $n++; END { print "$n items, ", $bad + 0, " differ" }')" "60 items, 0 differ" "$t: log-likelihoods are those of lm-evaluation-harness to 1e-3, choices the same"
    for s in choice:acc choice_char:acc_norm; do
        [ $t = winogrande ] && [ $s = choice_char:acc_norm ] && continue
        quiet "$ASSAY" score --scorer ${s%:*} --items "$tmp/$t.items.msgpack" --responses "$tmp/$t.msgpack" --out "$tmp/$t.${s%:*}.msgpack"
        is "$("$ASSAY" cat "$tmp/$t.${s%:*}.msgpack" | grep -o '"value":[0-9.]*' | cut -d: -f2 | tr '\n' ' ')" \
            "$(grep -o "\"${s#*:}\": [0-9.]*" "$tmp/want" | awk '{printf "%.1f ", $2}')" "$t: ${s#*:} is the same on every item"
    done
done
quiet choice copa "$tmp/copa.jsonl" "$tmp/b.msgpack" --batch 1 --threads 1
quiet choice copa "$tmp/copa.jsonl" "$tmp/c.msgpack" --batch 32 --threads 2
cmp -s "$tmp/b.msgpack" "$tmp/c.msgpack" && cmp -s "$tmp/b.msgpack" "$tmp/copa.msgpack"
result $? "batch and threads change no bit"

# ---- killed, it goes on where it was
for n in 9 14; do
    (ASSAY_FAULT=kill:$n choice copa "$tmp/copa.jsonl" "$tmp/k.msgpack" --threads 1) > /dev/null 2>&1
done
ok "killed twice, nothing has the final name" test ! -e "$tmp/k.msgpack" -a -n "$(ls "$tmp"/k.msgpack.*.journal 2> /dev/null)"
quiet choice copa "$tmp/copa.jsonl" "$tmp/k.msgpack" --threads 1
ok "the third run keeps what was answered" grep -q '[1-9][0-9]* of 60 items are answered already' "$tmp/err"
cmp -s "$tmp/k.msgpack" "$tmp/copa.msgpack" && [ -z "$(ls "$tmp"/k.msgpack.*.journal 2> /dev/null)" ]
result $? "and ends with the same bytes, its journal gone"

# ---- replayed values are of the rule by which they were asked
replay() { "$ASSAY" eval --task choice --model "replay:$1" --task-file "$2" --items "$tmp/copa.jsonl" --out "$tmp/replay.msgpack"; }
identity() { perl -0ne 'print $1 if /"identity": (\{[^}]*\})/' "$1.manifest.json" | tr -d ' \n'; }
sed 's/^encoding.*//' pipelines/tasks/copa.ini > "$tmp/apart.ini"
echo 'encoding = apart' >> "$tmp/apart.ini"
fails 2 'apart encodes context and choice apart, but the replayed values are of texts encoded joined' replay "$tmp/copa.msgpack" "$tmp/apart.ini"
result $? "values encoded by another rule are refused"
quiet choice copa "$tmp/copa.jsonl" "$tmp/narrow.msgpack" --precision bf16
quiet replay "$tmp/narrow.msgpack" copa
ok "bf16 weights are part of the identity" grep -q '"precision":"bf16weights"' <<< "$(identity "$tmp/narrow.msgpack")"
is "$(identity "$tmp/replay.msgpack")" "$(identity "$tmp/narrow.msgpack")" "a replay's identity is the recorded one, its precision too"
cp pipelines/tasks/copa.ini "$tmp/another.ini"
fails 2 'the replayed values are of the task copa, not of another: take the task file with that name' replay "$tmp/copa.msgpack" "$tmp/another.ini"
result $? "values of another task are refused"
fails 2 'the replayed values are of items with 0 shots, not 2: give --shots 0' "$ASSAY" eval --task choice --model "replay:$tmp/copa.msgpack" --task-file copa --items "$tmp/copa.jsonl" --shots 2 --out "$tmp/replay2.msgpack"
result $? "and those of items with other shots"
ok "neither leaves a file" [ ! -e "$tmp/replay2.msgpack" ]
rm "$tmp/narrow.msgpack.manifest.json" "$tmp/replay.msgpack"*
quiet replay "$tmp/narrow.msgpack" copa
is "$(identity "$tmp/replay.msgpack" | grep -oE '"(encoding|shots|precision)":"unknown"' | wc -l)" 3 "without a manifest nothing is made up"

# ---- few-shot
quiet choice copa "$tmp/copa.jsonl" "$tmp/s3.msgpack" --shots 3 --items-out "$tmp/s3.items.msgpack"
is "$("$ASSAY" cat "$tmp/s3.items.msgpack" | head -1 | grep -o '\\n\\n' | wc -l)" 3 "three shots, a blank line behind each"
printf '[run]\ntitle = x\n[eval]\nshots = 3\n' > "$tmp/shots.ini"
quiet choice copa "$tmp/copa.jsonl" "$tmp/s3c.msgpack" --config "$tmp/shots.ini" --seed 1
ok "shots of a run file are the same" cmp "$tmp/s3.msgpack" "$tmp/s3c.msgpack"
quiet choice copa "$tmp/copa.jsonl" "$tmp/s3d.msgpack" --config "$tmp/shots.ini" --set eval.shots=0
ok "--set goes over them" cmp "$tmp/copa.msgpack" "$tmp/s3d.msgpack"
quiet choice copa "$tmp/copa.jsonl" "$tmp/s3e.msgpack" --config "$tmp/shots.ini" --shots 0
ok "and the option over both" cmp "$tmp/copa.msgpack" "$tmp/s3e.msgpack"
quiet choice copa "$tmp/copa.jsonl" "$tmp/s3b.msgpack" --shots 3
cmp -s "$tmp/s3.msgpack" "$tmp/s3b.msgpack"
result $? "the same seed draws the same shots"
quiet choice copa "$tmp/copa.jsonl" "$tmp/s3c.msgpack" --shots 3 --seed 2
! cmp -s "$tmp/s3.msgpack" "$tmp/s3c.msgpack"
result $? "another seed others"
ok "an item is none of its own shots" test "$("$ASSAY" cat "$tmp/s3.items.msgpack" | perl -ne 'my ($i) = /"instruction":"((?:[^"\\]|\\.)*)"/; my ($c) = /"contexts":\["((?:[^"\\]|\\.)*)"\]/; my $k = () = $c =~ /\Q$i\E/g; $bad++ if $k != 1; END { print $bad + 0 }')" = 0
fails 2 '[-][-]seed draws the shots of a choice task and there are none' choice copa "$tmp/copa.jsonl" "$tmp/x.msgpack" --seed 2
result $? "a seed that draws nothing is refused"
fails 1 'want more than 60 rows' choice copa "$tmp/copa.jsonl" "$tmp/x.msgpack" --shots 60
result $? "more shots than rows are refused"

fails 1 'is no text but log-probabilities of choices, which exact does not read; take --scorer choice' "$ASSAY" score --scorer exact --items "$tmp/copa.items.msgpack" --responses "$tmp/copa.msgpack" --out "$tmp/x.msgpack"
result $? "a scorer of texts refuses choices"

# ---- the items as asked, when the answers are there already
quiet choice copa "$tmp/copa.jsonl" "$tmp/s3.msgpack" --shots 3 --items-out "$tmp/s3again.items.msgpack"
ok "--items-out leaves them though nothing runs" cmp "$tmp/s3.items.msgpack" "$tmp/s3again.items.msgpack"
fails 2 'items are written as msgpack' choice copa "$tmp/copa.jsonl" "$tmp/x.msgpack" --items-out "$tmp/x.jsonl"
result $? "a name that says JSON is refused"
for same in x.msgpack ./x.msgpack; do
    fails 2 'items-out and --out are both' choice copa "$tmp/copa.jsonl" "$tmp/x.msgpack" --items-out "$tmp/$same"
    result $? "one name for answers and items is refused ($same)"
done
mkdir "$tmp/elsewhere"
fails 2 'must lie in the folder of --out' choice copa "$tmp/copa.jsonl" "$tmp/elsewhere/x.msgpack" --items-out "$tmp/x.items.msgpack"
result $? "another folder too"

# ---- rows whose right choice nobody said: what is taken is counted, nothing is scored
printf '[task]\nprompt = {query}\nchoices = {choices}\nmetric = acc_norm_char\n' > "$tmp/open.ini"
open_rows() { "$ASSAY" eval --task choice --model "$1" --task-file "$tmp/open.ini" --items "$2" "${@:3}"; }
open_task() { open_rows "$tmp/m" "$tmp/copa.jsonl" "$@"; }
quiet open_task --out "$tmp/open.msgpack" --items-out "$tmp/open.items.msgpack"
said=$(cat "$tmp/out")
ok "it says what was taken, how often, and that nothing is scored: $said" \
    grep -qE '^open: taken by acc_norm_char: choice 0 [0-9]+ times, choice 1 [0-9]+ times; 60 items have no right choice, so they are not scored; 60 items$' "$tmp/out"
taken() { "$ASSAY" cat "$tmp/open.msgpack" | grep -c "\"detail\":\"takes choice .*$1 by $2[,\"]"; }
is "$(grep -oE 'choice [01] [0-9]+' <<< "$said" | cut -d' ' -f3 | tr '\n' ' ')" "$(taken 0 acc_norm_char) $(taken 1 acc_norm_char) " "each item's record says which"
is "$("$ASSAY" cat "$tmp/open.msgpack" | grep -o '"detail":"takes choice [01]' | grep -o '.$' | tr '\n' ' ')" \
    "$("$ASSAY" cat "$tmp/copa.msgpack" | perl -ne '/"choice_logprob":\[([^,]+),([^\]]+)\]/ and print $2 > $1 ? "1 " : "0 "')" "the one with the largest log-probability"
is "$(perl -0ne 'print join " ", /"taken": \{\s*"acc": \[\s*(\d+),\s*(\d+)/' "$tmp/open.msgpack.manifest.json")" "$(taken 0 acc) $(taken 1 acc)" "the manifest has the counts"
for s in choice:acc choice_char:acc_norm_char; do
    is "$(taken 1 ${s#*:})" "$("$ASSAY" cat "$tmp/copa.${s%:*}.msgpack" | grep -c '"detail":"choice 1[",]')" "as often as the scorer ${s%:*} takes it where the right one is known"
done
ok "and no accuracy" sh -c "! grep -q '\"acc[a-z_]*\": [0-9]' '$tmp/open.msgpack.manifest.json'"
fails 1 'none of the 60 items says which choice is right, so choice_char' "$ASSAY" score --scorer choice_char --items "$tmp/open.items.msgpack" --responses "$tmp/open.msgpack" --out "$tmp/x.msgpack"
result $? "a scorer of choices refuses them by name"
fails 1 'has 2 choices and the task no gold: acc_greedy' sh -c "sed -i s/acc_norm_char/acc_greedy/ '$tmp/open.ini'; '$ASSAY' eval --task choice --model '$tmp/m' --task-file '$tmp/open.ini' --items '$tmp/copa.jsonl' --out '$tmp/x.msgpack'"
result $? "a metric of the right choice wants to know it"

# ---- bad input
head -2 "$tmp/copa.jsonl" > "$tmp/gold.jsonl"
echo '{"query": "a", "choices": ["b", "c"], "gold": 2}' >> "$tmp/gold.jsonl"
fails 1 'gold.jsonl:3.*gold "2" is none of 2 choices' choice copa "$tmp/gold.jsonl" "$tmp/x.msgpack"
result $? "a gold that is no choice is named with its line"
fails 1 'no value at "choices"' choice copa "$data/eval/winogrande.jsonl" "$tmp/x.msgpack"
result $? "rows of another task are refused by the missing key"
fails 2 'neither a task file nor a task of the tool' "$ASSAY" eval --task choice --model "$tmp/m" --task-file nowhere --items "$tmp/copa.jsonl" --out "$tmp/x.msgpack"
result $? "an unknown task is a usage error"
fails 2 'no filter is called "tirm"' sh -c "printf '[task]\nprompt = {query|tirm}\nchoices = {choices}\n' > '$tmp/bad.ini'; '$ASSAY' eval --task choice --model '$tmp/m' --task-file '$tmp/bad.ini' --items '$tmp/copa.jsonl' --out '$tmp/x.msgpack'"
result $? "a filter that is none is refused before anything runs"
perl -e 'my $w = join " ", map { "word$_" } 1..700; print "{\"query\": \"a\", \"choices\": [\"b\", \"$w\"], \"gold\": 0}\n"' > "$tmp/long.jsonl"
cat "$tmp/copa.jsonl" >> "$tmp/long.jsonl"
quiet choice copa "$tmp/long.jsonl" "$tmp/long.msgpack"
ok "a choice beyond the context fails alone and is counted" grep -q '61 items, 0 invalid, 1 failed' "$tmp/out"

# ---- a broken model: NaN is invalid, never choice 0
poke() { # tensor byte to: a NaN there
    mkdir "$3"
    cp "$tmp"/m/*.json "$3"
    perl -e 'local $/; open F, "<:raw", $ARGV[0]; $_ = <F>; my $n = unpack "Q<", $_; my ($o) = substr($_, 8, $n) =~ /"(?:transformer\.)?$ARGV[1]":\{[^}]*"data_offsets":\[(\d+)/; substr($_, 8 + $n + $o + $ARGV[2], 4) = pack "f<", "nan"; print' "$tmp/m/model.safetensors" "$1" "$2" > "$3/model.safetensors"
}
nan() { "$ASSAY" eval --task choice --task-file pipelines/tasks/copa.ini "$@"; }
poke wpe.weight $((200 * 32 * 4)) "$tmp/nan" # the 201st position, which one item reaches
perl -e 'my $w = join " ", map { "word$_" } 1..60; print "{\"query\": \"$w\", \"choices\": [\"b\", \"c\"], \"gold\": 0}\n"' > "$tmp/far.jsonl"
cat "$tmp/copa.jsonl" >> "$tmp/far.jsonl"
some=(nan --model "$tmp/nan" --items "$tmp/far.jsonl" --out "$tmp/nan.msgpack" --items-out "$tmp/nan.items.msgpack")
fails 1 'copa: 1 of 61 items are invalid, .* (0): look at the model.s weights' "${some[@]}"
result $? "NaN makes an item invalid, which is an error that names it"
ok "that is counted" grep -q '61 items, 1 invalid' "$tmp/out"
is "$(tr -d ' \n' < "$tmp/nan.msgpack.manifest.json" | grep -o '"invalid_ids":\[[^]]*\]')" '"invalid_ids":["0"]' "listed in the manifest"
is "$("$ASSAY" cat "$tmp/nan.msgpack" | head -1 | grep -o '"detail":"[^"]*"')" '"detail":"invalid: the log-probability of choice 0 is NaN"' "and said in the record"
fails 1 'copa: 1 of 61 items are invalid' "${some[@]}"
result $? "up to date, it is an error still"
ok "and says its line again" grep -q '61 items, 1 invalid' "$tmp/out"
quiet "${some[@]}" --max-invalid 0.05
result $? "unless such a share is allowed"
fails 1 'copa: 1 of 61' "${some[@]}" --max-invalid 0.01
result $? "a smaller share is too much"
quiet "$ASSAY" score --scorer choice --items "$tmp/nan.items.msgpack" --responses "$tmp/nan.msgpack" --out "$tmp/nan.s.msgpack"
is "$("$ASSAY" cat "$tmp/nan.s.msgpack" | grep -c 'parse_failed.*not a number')" 1 "and the scorer gives it no value"
ok "its warning adds up" grep -q '1 item has no score (1 invalid)' "$tmp/err"
quiet "$ASSAY" score --scorer acc --items "$tmp/nan.items.msgpack" --responses "$tmp/nan.msgpack" --out "$tmp/nan.acc.msgpack"
ok "a scorer may be called by its metric" cmp "$tmp/nan.acc.msgpack" "$tmp/nan.s.msgpack"
bound() { grep -o "\"$1\": [0-9.]*" "$tmp/nan.s.msgpack.manifest.json" | head -1 | cut -d' ' -f2; }
ok "the mean is bounded: $(bound lowest) to $(bound highest)" awk "BEGIN {d = $(bound highest) - $(bound lowest); exit !((d * 61 - 1) ^ 2 < 1e-6)}"
perl -e 'my $w = join " ", map { "word$_" } 1..60; print "{\"text\": \"$w end\"}\n"; print "{\"text\": \"the cat sat on the mat no $_\"}\n" for 1..9' > "$tmp/lam.jsonl"
lam() { "$ASSAY" eval --task choice --task-file lambada --items "$tmp/lam.jsonl" "$@"; }
lam_bounds() { grep -o '"acc[a-z_]*_bounds"' "$1.manifest.json"; }
quiet lam --model "$tmp/m" --out "$tmp/lam.msgpack"
is "$(grep -c between "$tmp/out") $(lam_bounds "$tmp/lam.msgpack")" "0 " "items of one choice that are all answered have no bounds"
quiet lam --model "$tmp/nan" --out "$tmp/lam-nan.msgpack" --max-invalid 0.5
ok "with an invalid one acc_greedy has them" grep -q '10 items, 1 invalid, 0 failed: acc_greedy of all between 0.[0-9]* and 0.[0-9]*$' "$tmp/out"
is "$(lam_bounds "$tmp/lam-nan.msgpack")" '"acc_greedy_bounds"' "and no acc, which is not measured"
poke ln_f.bias 0 "$tmp/all-nan"
fails 1 'no item has a log-probability of each choice that is a number: 61 of 61' nan --model "$tmp/all-nan" --items "$tmp/far.jsonl" --out "$tmp/all-nan.msgpack"
result $? "a task whose items are all invalid is an error"
ok "and leaves no result" [ ! -e "$tmp/all-nan.msgpack" ]
sed -i s/acc_greedy/acc_norm_char/ "$tmp/open.ini"
open_rows "$tmp/nan" "$tmp/far.jsonl" --out "$tmp/nan-open.msgpack" > "$tmp/out" 2> "$tmp/err"
ok "without a right choice there is nothing to bound" sh -c "grep -q '61 items have no right choice.*1 invalid' '$tmp/out' && ! grep -q between '$tmp/out' && ! grep -q acc_bounds '$tmp/nan-open.msgpack.manifest.json'"

# ---- a choice that no context holds
perl -e 'my $w = join " ", map { "word$_" } 1..900; print "{\"query\": \"a\", \"choices\": [\"b\", \"$w\"], \"gold\": 0}\n"' | cat - "$tmp/copa.jsonl" > "$tmp/long.jsonl"
quiet choice copa "$tmp/long.jsonl" "$tmp/long.msgpack" --items-out "$tmp/long.items.msgpack"
ok "an item that can't be asked says so" grep -q 'not asked: a choice is longer than the context' "$tmp/err"
quiet "$ASSAY" score --scorer choice --items "$tmp/long.items.msgpack" --responses "$tmp/long.msgpack" --out "$tmp/long.s.msgpack"
ok "and its score too" grep -q "1 item has no score (1 that can't be asked or checked" "$tmp/err"
is "$(grep -oE '"(transport_failed|not_run|unchecked)": 1' "$tmp/long.s.msgpack.manifest.json" | tr -d '\n')" '"not_run": 1"unchecked": 1' "no transport failed"

# ---- a model that knows nothing: every token is as likely as any other
mkdir "$tmp/flat"
cp "$tmp"/m/*.json "$tmp/flat"
perl -e 'local $/; open F, "<:raw", $ARGV[0]; $_ = <F>; my $n = unpack "Q<", $_; print substr($_, 0, 8 + $n), "\0" x (length($_) - 8 - $n)' "$tmp/m/model.safetensors" > "$tmp/flat/model.safetensors"
quiet nan --model "$tmp/flat" --items "$tmp/copa.jsonl" --out "$tmp/flat.msgpack"
ok "values that are all alike are flagged" grep -q 'every token of all 120 continuations has the same log-probability, -6.9' "$tmp/err"
ok "in the manifest too" grep -q '"flat": -6.9' "$tmp/flat.msgpack.manifest.json"
ok "others are not" sh -c "! grep -q '\"flat\"' '$tmp/copa.msgpack.manifest.json'"

# ---- export
ok "export-model writes a folder" quiet "$ASSAY" export-model --model "$tmp/m" --out "$tmp/hf"
ok "with what transformers wants" test -s "$tmp/hf/tokenizer.json" -a -s "$tmp/hf/tokenizer_config.json" -a -s "$tmp/hf/config.json"
quiet "$ASSAY" eval --task choice --model "$tmp/hf" --task-file copa --items "$tmp/copa.jsonl" --out "$tmp/hf.msgpack" --threads 1
is "$("$ASSAY" cat "$tmp/hf.msgpack" | sed 's/"model":"[^"]*"//')" "$("$ASSAY" cat "$tmp/copa.msgpack" | sed 's/"model":"[^"]*"//')" "the export gives the same bits"
ok "a manifest that verifies" quiet "$ASSAY" verify "$tmp/hf"
mkdir "$tmp/full"
echo mine > "$tmp/full/notes"
fails 2 'is not empty (notes) and not an export' "$ASSAY" export-model --model "$tmp/m" --out "$tmp/full"
result $? "a folder with somebody's files is refused"
is "$(ls "$tmp/full")" notes "and left alone"
ok "an export may be made again" quiet "$ASSAY" export-model --model "$tmp/m" --out "$tmp/hf"
ok "and a GGUF" quiet "$ASSAY" export-model --model "$tmp/m" --out "$tmp/m.gguf" --format gguf
echo mine > "$tmp/notes.txt"
fails 2 'notes.txt is there and not an export' "$ASSAY" export-model --model "$tmp/m" --out "$tmp/notes.txt" --format gguf
result $? "somebody's file is refused"
is "$(cat "$tmp/notes.txt")" mine "and left alone"
ok "a GGUF may be made again" quiet "$ASSAY" export-model --model "$tmp/m" --out "$tmp/m.gguf" --format gguf
mkdir "$tmp/no-eos"
cp "$tmp/m/model.safetensors" "$tmp/no-eos"
sed 's/, "bos_token_id": 999, "eos_token_id": 999//' "$tmp/m/config.json" > "$tmp/no-eos/config.json"
quiet "$ASSAY" export-model --model "$tmp/no-eos" --out "$tmp/no-eos.hf"
ok "a model without an EOT says so, or transformers takes GPT-2's" grep -q '"eos_token_id": null' "$tmp/no-eos.hf/config.json"
ok "and is read again" quiet "$ASSAY" export-model --model "$tmp/no-eos.hf" --out "$tmp/no-eos.hf2"
mkdir "$tmp/pickle"
cp "$tmp/m/config.json" "$tmp/pickle"
: > "$tmp/pickle/model.pth"
fails 1 'pickle holds model.pth, a pickle of Python.s, and no model.safetensors: docs/formats.md has the line' "$ASSAY" export-model --model "$tmp/pickle" --out "$tmp/x.hf"
result $? "a folder with PyTorch's own file says how it is converted"
# The file of this hash was read by the gguf package and run by llama.cpp (tests/parity/checkpoints.py).
cp "$tmp/m.gguf" "$tmp/named.gguf"
is "$(head -c 4 "$tmp/m.gguf")" GGUF "which begins as one"
is "$(tail -c 440000 "$tmp/m.gguf" | sha256sum | cut -c1-16)" "d48bbcb0b1386212" "and holds the bytes that llama.cpp ran"

# ---- constraints from a task file, answers scored by them
printf '{"prompt": "he said"}\n{"prompt": "and then"}\n' > "$tmp/free.jsonl"
ok "a generate task asks" quiet "$ASSAY" eval --task instruct --model "$tmp/m" --task-file pipelines/tasks/no-comma.ini --items "$tmp/free.jsonl" \
    --items-out "$tmp/free.items.msgpack" --max-new-tokens 30 --out "$tmp/free.msgpack"
is "$("$ASSAY" cat "$tmp/free.items.msgpack" | grep -c 'no_comma.*number_words')" 2 "its constraints are with every item"
ok "and are scored" quiet "$ASSAY" score --scorer ifeval --items "$tmp/free.items.msgpack" --responses "$tmp/free.msgpack" --out "$tmp/free.s.msgpack"
is "$("$ASSAY" cat "$tmp/free.s.msgpack" | grep -c 'punctuation:no_comma [yn].*number_words [yn]')" 2 "by name"
if [ -f "$data/eval/ifeval_input_data.jsonl" ]; then
    head -20 "$data/eval/ifeval_input_data.jsonl" > "$tmp/if.jsonl"
    ok "IFEval's rows are answered as they are" quiet "$ASSAY" eval --task instruct --model "$tmp/m" --template bare --items "$tmp/if.jsonl" --max-new-tokens 8 --out "$tmp/if.msgpack"
    ok "and scored with tiers and baselines" quiet "$ASSAY" score --scorer ifeval --items "$tmp/if.jsonl" --responses "$tmp/if.msgpack" --out "$tmp/if.s.msgpack"
    ok "in the manifest" sh -c "grep -q '\"unsupported\": 0' '$tmp/if.s.msgpack.manifest.json' && grep -q '\"echo\"' '$tmp/if.s.msgpack.manifest.json'"
else
    skip "eval/ifeval_input_data.jsonl"
fi
rm "$tmp/m/tokenizer.json"
fails 2 'holds no vocabulary' "$ASSAY" export-model --model "$tmp/m" --out "$tmp/n.gguf" --format gguf
result $? "GGUF without a vocabulary is refused"
done_testing
