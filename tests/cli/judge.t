#!/usr/bin/env bash
# assay judge, from the outside: outcomes, bounds, resume after kills, caps, keys.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'exec 7>&-; rm -rf "$tmp"' EXIT
helper=$PWD/$BUILD/tests/httpd
[ -x "$helper" ] || helper=$BUILD/tests/httpd
serve() { # script name -> $url; the one before it ends
    exec 7>&-
    rm -f "$tmp/in" "$tmp/port"
    mkfifo "$tmp/in"
    "$helper" "$tmp/$1" --log "$tmp/$1.log" --seconds 120 < "$tmp/in" > "$tmp/port" &
    exec 7> "$tmp/in"
    for _ in $(seq 100); do [ -s "$tmp/port" ] && break; sleep 0.05; done
    url=http://127.0.0.1:$(cat "$tmp/port")
}
says() { # what the judge answers, once or for ever
    printf 'on POST /v1/chat/completions\n'
    [ $# -gt 1 ] && printf 'match %s\ntimes 1000\n' "$2"
    printf 'body {"model":"judge-1","choices":[{"message":{"content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":2}}\n' "$1"
}
values() { "$ASSAY" cat "$1/scores.msgpack" | grep -o '"value":[0-9]*' | cut -d: -f2 | sort -n | tr '\n' ' '; }
asked() { wc -l < "$tmp/$1.log"; }

# ---- 60 items with answers a judge can be scripted on: item k's answer holds "answer-k."
{
    echo '['
    for k in $(seq 60); do
        [ "$k" -gt 1 ] && echo ','
        printf '{"id":"i%s","instruction":"question %s","input":"","output":"right %s"}' "$k" "$k" "$k"
    done
    echo ']'
} > "$tmp/items.json"
{
    printf 'on POST /v1/chat/completions\nbody {"model":"cand","choices":[{"message":{"content":"an answer"},"finish_reason":"stop"}]}\n'
} > "$tmp/cand"
serve cand
ok "answers to judge" quiet "$ASSAY" eval --task instruct --model "$url/v1#cand" --items "$tmp/items.json" --template plain --out "$tmp/r.msgpack"
judge=("$ASSAY" judge --items "$tmp/items.json" --responses "$tmp/r.msgpack")

# ---- all good
{ for k in 1 2 3 4 5 6 7 8 9; do says "$((k * 10))" "question $k\\n"; done; says 50; } > "$tmp/good"
# "match question 1\n" must not fit "question 10": the body holds JSON, where a line end is \n.
serve good
ok "judge" quiet "${judge[@]}" --judge "$url/v1#j" --out "$tmp/j"
ok "scores all and prints n, mean and interval" grep -q '^judge: 60 of 60 scored, mean 50.00 \[[0-9.]*, [0-9.]*\]; 60 asked now, 0 kept; 3000 + 120 tokens$' "$tmp/out"
is "$(asked good)" 60 "with one request each"
is "$("$ASSAY" cat "$tmp/j/scores.msgpack" | head -3 | grep -o '"value":[0-9]*' | tr '\n' ' ')" '"value":10 "value":20 "value":30 ' "scores stand in the order of the items"
ok "the manifest has the identity: prompt, judge, served" bash -c "grep -q '\"prompt\": \"[0-9a-f]\\{64\\}\"' '$tmp/j/manifest.json' && grep -q '\"served\": \"judge-1\"' '$tmp/j/manifest.json'"
cp "$tmp/j/scores.msgpack" "$tmp/want.msgpack"
quiet "${judge[@]}" --judge "$url/v1#j" --out "$tmp/j"
ok "again: up to date" grep -q 'up to date' "$tmp/err"
rm "$tmp/j/manifest.json" "$tmp/j/scores.msgpack"
ok "without its manifest it is put together from the verdicts" quiet "${judge[@]}" --judge "$url/v1#j" --out "$tmp/j"
ok "to the same bytes" cmp "$tmp/j/scores.msgpack" "$tmp/want.msgpack"
is "$(asked good)" 60 "and nobody was asked"
ok "another prompt asks anew" quiet "${judge[@]}" --judge "$url/v1#j" --out "$tmp/j" --prompt <(echo 'grade {instruction} {answer}')
is "$(asked good)" 120 "all of them"

# ---- kill -9 at five moments
{ cat "$tmp/good"; } | sed '/^body/a delay 0.02' > "$tmp/slow"
serve slow
killed=0
for k in 1 2 3 4 5; do
    "${judge[@]}" --judge "$url/v1#j" --concurrency 3 --out "$tmp/k" > /dev/null 2>&1 &
    pid=$!
    for _ in $(seq 2000); do
        [ "$(asked slow)" -ge $((k * 8 + RANDOM % 4)) ] && break
        kill -0 $pid 2> /dev/null || break
    done
    kill -9 $pid 2> /dev/null && killed=$((killed + 1))
    wait $pid 2> /dev/null
done
before=$("$ASSAY" cat "$tmp/k/verdicts.msgpack" 2> /dev/null | wc -l)
ok "five kills left some verdicts ($before) and no scores" [ "$killed" = 5 -a "$before" -gt 0 -a "$before" -lt 60 -a ! -e "$tmp/k/scores.msgpack" ]
ok "run again" quiet "${judge[@]}" --judge "$url/v1#j" --concurrency 3 --out "$tmp/k"
# The judge's identity has its address, so keys differ from the first run; nothing else does.
strip() { "$ASSAY" cat "$1" | sed 's/"key":"[0-9a-f]*"//'; }
is "$(strip "$tmp/k/scores.msgpack" | cmp - <(strip "$tmp/want.msgpack") && echo same)" same "the same scores as without a kill"
is "$("$ASSAY" cat "$tmp/k/verdicts.msgpack" | grep -o '"key":"[^"]*"' | sort | uniq -d | wc -l)" 0 "no verdict was paid for twice"
is "$(grep -o "$before kept" "$tmp/out")" "$before kept" "what was kept is said"
ok "at most what was in flight was asked twice: $(asked slow) requests for 60 answers" [ "$(asked slow)" -le $((60 + 5 * 3)) ]

# ---- outcomes
{
    says 'I would say 70 or so' 'question 1\n'
    says '101' 'question 2\n'
    printf 'on POST /v1/chat/completions\nmatch question 3\\n\ntimes 1000\nbody {"choices":[{"message":{"content":"10"},"finish_reason":"length"}]}\n'
    printf 'on POST /v1/chat/completions\nmatch question 4\\n\ntimes 1000\nbody {"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}\n'
    printf 'on POST /v1/chat/completions\nmatch question 5\\n\ntimes 1000\nstatus 400\nbody {"error":{"message":"odd"}}\n'
    says 80
} > "$tmp/odd"
serve odd
ok "five failures of 60 are more than 5%: incomplete" fails 4 '5 of 60 answers have no verdict' "${judge[@]}" --judge "$url/v1#j" --out "$tmp/o" --retries 0
ok "the mean comes with its bounds and counts" grep -q '55 of 60 scored, mean 80.00 .*, between 73.33 and 81.67 if all had a score, 2 parse_failed, 1 refused, 1 truncated, 1 transport_failed' "$tmp/out"
ok "and there are no scores yet" [ ! -e "$tmp/o/scores.msgpack" -a ! -e "$tmp/o/manifest.json" ]
is "$(asked odd)" 62 "what can't be parsed was asked twice"
ok "with --max-failed 0.1 it is complete" quiet "${judge[@]}" --judge "$url/v1#j" --out "$tmp/o" --retries 0 --max-failed 0.1
is "$(asked odd)" 69 "the failures were asked again, nothing else"
is "$("$ASSAY" cat "$tmp/o/scores.msgpack" | grep -c '"value"')" 55 "a failure has no value"
is "$("$ASSAY" cat "$tmp/o/scores.msgpack" | grep -c '"outcome":"truncated"')" 1 "but its outcome"
sed 's/I would say 70 or so/70/; s/"content":"101"/"content":"30"/' "$tmp/odd" > "$tmp/cured"
port=${url##*:}
exec 7>&-
wait 2> /dev/null
rm -f "$tmp/in"
mkfifo "$tmp/in"
"$helper" "$tmp/cured" --port "$port" --log "$tmp/cured.log" --seconds 120 < "$tmp/in" > "$tmp/port" &
exec 7> "$tmp/in"
for _ in $(seq 100); do [ -s "$tmp/port" ] && [ -e "$tmp/cured.log" ] && break; sleep 0.05; done
rm "$tmp/o/manifest.json"
ok "a judge that is cured" quiet "${judge[@]}" --judge "$url/v1#j" --out "$tmp/o" --retries 0 --max-failed 0.1
is "$(values "$tmp/o" | cut -d' ' -f1-3)" "30 70 80" "gives the two that could not be parsed before"
is "$(asked cured)" 5 "only failures were asked"

# ---- waiting, caps, a judge that is not there
{
    printf 'on POST /v1/chat/completions\ntimes 1\nstatus 429\nheader Retry-After: 1\nbody {}\n'
    printf 'on POST /v1/chat/completions\ntimes 1\nstatus 500\nbody <html>\n'
    says 42
} > "$tmp/busy"
serve busy
ok "429 with Retry-After and 500 are waited out" quiet "${judge[@]}" --judge "$url/v1#j" --out "$tmp/b"
ok "and all is scored" grep -q '60 of 60 scored, mean 42.00 (no interval' "$tmp/out"
serve good
ok "a cap of requests: incomplete" fails 4 'cap of 25 requests' "${judge[@]}" --judge "$url/v1#j" --out "$tmp/cap" --max-requests 25
is "$("$ASSAY" cat "$tmp/cap/verdicts.msgpack" | wc -l)" 25 "what was paid for is kept"
ok "a cap of tokens: incomplete" fails 4 'cap of tokens' "${judge[@]}" --judge "$url/v1#j" --out "$tmp/cap" --max-total-tokens 300 --concurrency 1
ok "asked again without: complete" quiet "${judge[@]}" --judge "$url/v1#j" --out "$tmp/cap"
{ sed '/^body/a delay 0.2' "$tmp/good"; } > "$tmp/snail"
serve snail
"${judge[@]}" --judge "$url/v1#j" --out "$tmp/int" > /dev/null 2> "$tmp/err" &
pid=$!
for _ in $(seq 200); do [ "$(asked snail)" -ge 5 ] && break; sleep 0.02; done
kill -TERM $pid
wait $pid
is "$? $(grep -c interrupted "$tmp/err")" "4 1" "interrupted: exit 4, said"
ok "with what was answered" [ "$("$ASSAY" cat "$tmp/int/verdicts.msgpack" | wc -l)" -ge 1 ]
exec 7>&-
ok "nobody there: incomplete, soon" fails 4 'could not connect\|refused' "${judge[@]}" --judge "http://127.0.0.1:9/v1#j" --out "$tmp/none" --retries 0
is "$(cat "$tmp/out")" "" "and no summary of nothing"
mkdir -p "$tmp/ro/verdicts.msgpack"
ok "a folder that can't be written" fails 1 'verdicts.msgpack' "${judge[@]}" --judge "http://127.0.0.1:9/v1#j" --out "$tmp/ro"
is "$(cat "$tmp/out")" "" "ends with the error alone"

# ---- keys
printf 'on POST /v1/chat/completions\nmatch Bearer sk-TOPSECRET\nstatus 401\nbody {"error":{"message":"key sk-TOPSECRET is wrong"}}\n' > "$tmp/auth"
serve auth
ok "a wrong key ends the run" fails 1 'HTTP 401' env ASSAY_API_KEY=sk-TOPSECRET "${judge[@]}" --judge "$url/v1#j" --out "$tmp/key"
is "$(asked auth)" 1 "at the first request"
is "$(cat "$tmp/out" "$tmp/err" "$tmp"/key/* 2> /dev/null | grep -c TOPSECRET)" 0 "and the key is nowhere"
exec 7>&-

# ---- a full disk
serve good
ok "a verdict that can't be written ends the run" fails 1 'verdicts.msgpack' env ASSAY_FAULT=write:20 "${judge[@]}" --judge "$url/v1#j" --out "$tmp/full" --concurrency 1
n=$("$ASSAY" cat "$tmp/full/verdicts.msgpack" | wc -l)
ok "those before it are whole ($n)" [ "$n" -gt 5 -a "$n" -lt 25 ]
ok "run again, it is complete" quiet "${judge[@]}" --judge "$url/v1#j" --out "$tmp/full"
is "$(grep -o ' [0-9]* kept' "$tmp/out")" " $n kept" "with those"
exec 7>&-

# ---- bad input
ok "a folder behind a file" fails 1 "make folder $tmp/items.json: there is a file of this name" "${judge[@]}" --judge http://h/v1#m --out "$tmp/items.json/x"
ok "no judge" fails 2 'which judge' "${judge[@]}" --out "$tmp/x"
ok "a prompt without its fields" fails 2 '{answer}' "${judge[@]}" --judge http://h/v1#m --out "$tmp/x" --prompt <(echo '{instruction}')
ok "no responses" fails 1 'no/file' "$ASSAY" judge --judge http://h/v1#m --items "$tmp/items.json" --responses no/file --out "$tmp/x"
ok "items that are none" fails 1 'cand' "$ASSAY" judge --judge http://h/v1#m --items "$tmp/cand" --responses "$tmp/r.msgpack" --out "$tmp/x"
printf '[{"id":"other","instruction":"q","output":"a"}]' > "$tmp/other.json"
ok "responses to other items" fails 1 'r.msgpack: response for item "i1", which is not among the 1 items' "$ASSAY" judge --judge http://h/v1#m --items "$tmp/other.json" --responses "$tmp/r.msgpack" --out "$tmp/x"
ok "none of them left a folder" [ ! -e "$tmp/x" ]
done_testing
