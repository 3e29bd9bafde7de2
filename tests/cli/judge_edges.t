#!/usr/bin/env bash
# assay judge where a newcomer stumbles: a judge that only fails, prices, counts, answers that are not
# there; and agree.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'exec 7>&-; rm -rf "$tmp"' EXIT
helper=$PWD/$BUILD/tests/httpd
[ -x "$helper" ] || helper=$BUILD/tests/httpd
warns() { grep -q -- "$1" "$tmp/err" || { sed 's/^/# /' "$tmp/err"; return 1; }; }
serve() { # script name -> $url; the one before it ends
    exec 7>&-
    wait 2> /dev/null
    rm -f "$tmp/in" "$tmp/port"
    mkfifo "$tmp/in"
    "$helper" "$tmp/$1" --log "$tmp/$1.log" --seconds 120 < "$tmp/in" > "$tmp/port" &
    exec 7> "$tmp/in"
    for _ in $(seq 100); do [ -s "$tmp/port" ] && break; sleep 0.05; done
    url=http://127.0.0.1:$(cat "$tmp/port")
    J=$url/v1#small
}
reply() { # content finish_reason [match]
    printf 'on POST /v1/chat/completions\n'
    [ $# -gt 2 ] && printf 'match %s\ntimes 1000\n' "$3"
    printf 'body {"model":"small","choices":[{"message":{"content":"%s"},"finish_reason":"%s"}],"usage":{"prompt_tokens":50,"completion_tokens":2}}\n' "$1" "$2"
}
asked() { wc -l < "$tmp/$1.log"; }
for k in $(seq 20); do
    printf '{"id":"i%s","instruction":"question %s","input":"","output":"right"}\n' "$k" "$k"
done > "$tmp/items.jsonl"
head -18 "$tmp/items.jsonl" > "$tmp/fewer.jsonl"
reply 'an answer' stop > "$tmp/cand"
serve cand
quiet "$ASSAY" eval --task instruct --model "$J" --items "$tmp/items.jsonl" --template plain --out "$tmp/r.msgpack"
quiet "$ASSAY" eval --task instruct --model "$J" --items "$tmp/fewer.jsonl" --template plain --out "$tmp/few.msgpack"
judge() { "$ASSAY" judge --judge "$J" --items "$tmp/items.jsonl" --responses "${R:-$tmp/r.msgpack}" --retries 0 --concurrency "${C:-2}" "$@"; }

# ---- a judge that only fails
reply 'Let me think' length > "$tmp/cut"
serve cut
ok "verdicts that are all cut end the run" fails 4 'of the first 8 verdicts were cut at 16 tokens.*--max-tokens' judge --out "$tmp/c"
ok "soon" [ "$(asked cut)" -le 10 ]
ok "with --max-failed 1 all are asked" quiet judge --max-failed 1 --out "$tmp/c"
reply 'What a nice answer.' stop > "$tmp/chatty"
serve chatty
ok "so do replies without a verdict" fails 4 'none of the first 8 replies is a verdict (the last: no verdict: "What a nice answer."): try --structured on' judge --out "$tmp/n"
ok "soon" [ "$(asked chatty)" -le 10 ]
{ reply 'Hm.' stop 'question 1'; reply 70 stop; } > "$tmp/mixed"
serve mixed
ok "one verdict among them, and they are the judge's business" fails 4 '11 of 20 answers have no verdict' judge --asks 1 --out "$tmp/mixed.d"

# ---- counts and caps
C=8
reply 80 stop > "$tmp/good"
serve good
ok "a cap of five requests" fails 4 'cap of 5 requests' judge --max-requests 5 --out "$tmp/five"
C=2
ok "is five asked" says '; 5 asked now, 0 kept'

# ---- prices
price() { printf '[price]\nmodel = %s\ncurrency = USD\ninput = 2\noutput = 8\nsource = test\ndate = 2026-11-30\n' "$1" > "$tmp/price.ini"; }
price gpt-5.5
ok "the price of another model" quiet judge --price "$tmp/price.ini" --out "$tmp/p1"
ok "is named" warns 'the price is that of gpt-5.5, the judge is http://.*#small'
ok "no cap of money is taken from it" fails 2 'a cap of money needs the judge' judge --price "$tmp/price.ini" --max-money 1 --out "$tmp/p2"
"$ASSAY" doctor --judge "$J" --price "$tmp/price.ini" > "$tmp/out" 2> "$tmp/err"
ok "doctor says it too" warns 'the price is that of gpt-5.5'
for m in small smal any; do
    price $m
    quiet judge --price "$tmp/price.ini" --out "$tmp/p3" --seed 5
    ok "the price of $m fits" bash -c "! grep -q 'the price is that of' '$tmp/err'"
done

printf '[price]\nmodel = small\ncurrency = USD\ninput = 3000000\noutput = 8\nsource = test\ndate = 2026-11-30\n' > "$tmp/dear.ini"
quiet judge --price "$tmp/dear.ini" --out "$tmp/p4" --seed 6
ok "large amounts are written out" says '; 3000 USD'
ok "in the plan too" warns ', [0-9]* USD'
price small
quiet judge --price "$tmp/price.ini" --out "$tmp/p5" --seed 7 --max-failed 1
ok "and small ones" says '; 0.00232 USD'

# ---- answers
cp "$tmp/items.jsonl" "$tmp/all.jsonl"
mv "$tmp/fewer.jsonl" "$tmp/items.jsonl"
ok "an answer to an unknown item is an error" fails 1 'r.msgpack: response for item "i19", which is not among the 18 items' judge --out "$tmp/u"
mv "$tmp/all.jsonl" "$tmp/items.jsonl"
R=$tmp/few.msgpack
ok "answers that are missing are no failures of the judge" quiet judge --max-failed 0 --out "$tmp/few"
ok "but stand in the bounds" says '18 of 20 scored, mean 80.00.*, between 72.00 and 82.00 if all had a score, 2 not_run'
R=

# ---- agree
serve good
{ reply 4 stop 'question 1'; reply 3 stop; } > "$tmp/marks"
J=$url/v1#small
quiet judge --out "$tmp/a1"
ok "a judge that says one thing" quiet "$ASSAY" agree "$tmp/a1/scores.msgpack" "$tmp/a1/scores.msgpack"
ok "leaves kappa not estimable, with the reason" says '^kappa  *not estimable: both put all items into one and the same class'
ok "and the correlations" says '^pearson  *not estimable: each gives all items the same score'
serve marks
quiet judge --prompt rubric5 --out "$tmp/a5"
quiet judge --prompt rubric5 --seed 8 --out "$tmp/b5"
ok "the scale is that of the judging" quiet "$ASSAY" agree "$tmp/a5/scores.msgpack" "$tmp/b5/scores.msgpack"
ok "whatever it is" says '^classes  *5, of 1..5'
ok "two scales are refused" fails 2 'a1/scores.msgpack is on a scale of 0..100, .*a5/scores.msgpack on 1..5' "$ASSAY" agree "$tmp/a1/scores.msgpack" "$tmp/a5/scores.msgpack"
reply 'another answer' stop > "$tmp/cand2"
serve cand2
quiet "$ASSAY" eval --task instruct --model "$J" --items "$tmp/items.jsonl" --template plain --out "$tmp/s.msgpack"
serve good
R=$tmp/s.msgpack
quiet judge --out "$tmp/s1"
R=
ok "so are the answers of two models" fails 2 'judges the answers of r, .*s1/scores.msgpack others, of s' "$ASSAY" agree "$tmp/a1/scores.msgpack" "$tmp/s1/scores.msgpack"
twice() { "$ASSAY" judge --judge "$J" --items "$tmp/items.jsonl" --responses r="$tmp/r.msgpack" s="$tmp/s.msgpack" --out "$tmp/two"; }
ok "two models in one judging" quiet twice
ok "are told apart" fails 2 'of r, .* of s' "$ASSAY" agree "$tmp/two/scores/r.msgpack" "$tmp/two/scores/s.msgpack"
ok "the same model twice is not" quiet "$ASSAY" agree "$tmp/two/scores/r.msgpack" "$tmp/a1/scores.msgpack"

for n in one two; do
    printf '[{"instruction":"q","output":"r","model_response":"%s"},{"instruction":"p","output":"r","model_response":"%s too"}]\n' $n $n > "$tmp/$n.json"
done
serve good
json() { "$ASSAY" judge --judge "$J" --items "$tmp/one.json" --responses "$tmp/one.json" "$tmp/two.json" --out "$tmp/names"; }
ok "answers in JSON" quiet json
ok "are called by their file's name without .json" [ -e "$tmp/names/scores/one.msgpack" ]

# ---- doctor
{
    printf 'on POST /v1/chat/completions\nmatch temperature\ntimes 1000\nstatus 400\nbody {"error":{"message":"Unsupported value","param":"temperature","code":"unsupported_value"}}\n'
    reply 80 stop
} > "$tmp/hot"
serve hot
ok "doctor leaves out a temperature that is refused" quiet "$ASSAY" doctor --judge "$J"
ok "and says so" says 'refuses a temperature: give --temperature -1'
ok "with -1 it asks once" quiet "$ASSAY" doctor --judge "$J" --temperature -1
is "$(asked hot)" 3 "two requests and one"
ok "doctor knows all keys" says 'ASSAY_API_KEY is'
ok "judge names the option" fails 1 '--temperature -1 leaves it out' judge --out "$tmp/hot.d"
exec 7>&-
done_testing
