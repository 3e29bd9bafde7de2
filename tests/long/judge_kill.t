#!/usr/bin/env bash
# kill -9 at 50 random moments: a judging loses at most what was in flight and counts nothing twice.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'exec 7>&-; rm -rf "$tmp"' EXIT
N=600 FLIGHT=8 KILLS=50
{
    echo '['
    for k in $(seq $N); do
        [ "$k" -gt 1 ] && echo ','
        printf '{"id":"i%s","instruction":"question %s","input":"","output":"right %s"}' "$k" "$k" "$k"
    done
    echo ']'
} > "$tmp/items.json"
serve() { # script
    exec 7>&-
    rm -f "$tmp/in" "$tmp/port"
    mkfifo "$tmp/in"
    "$BUILD/tests/httpd" "$tmp/$1" --port "${2:-0}" --log "$tmp/$1.log" --seconds 600 < "$tmp/in" > "$tmp/port" &
    exec 7> "$tmp/in"
    for _ in $(seq 100); do [ -s "$tmp/port" ] && break; sleep 0.05; done
    port=$(cat "$tmp/port")
}
asked() { wc -l < "$tmp/$1.log"; }
body() { printf 'body {"model":"j","choices":[{"message":{"content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":2}}\n' "$1"; }
{ printf 'on POST /v1/chat/completions\n'; body answer; } > "$tmp/cand"
{
    for d in 1 2 3 4 5 6 7 8 9; do
        printf 'on POST /v1/chat/completions\nmatch question %s\ntimes 1000000\n' "$d"
        body "$((d * 10))"
        echo 'delay 0.03'
    done
} > "$tmp/slow"
serve cand
"$ASSAY" eval --task instruct --model "http://127.0.0.1:$port/v1#c" --items "$tmp/items.json" --template plain --out "$tmp/r.msgpack" > /dev/null 2>&1
ok "answers to judge" test -s "$tmp/r.msgpack"
serve slow
judge() { "$ASSAY" judge --judge "http://127.0.0.1:$port/v1#j" --items "$tmp/items.json" --responses "$tmp/r.msgpack" --concurrency $FLIGHT --out "$tmp/$1" > "$tmp/out" 2>&1; }
judge straight
ok "a straight judging" test -s "$tmp/straight/scores.msgpack"
before=$(asked slow)
whole=0 lost=0 at=0
for k in $(seq $KILLS); do
    "$ASSAY" judge --judge "http://127.0.0.1:$port/v1#j" --items "$tmp/items.json" --responses "$tmp/r.msgpack" --concurrency $FLIGHT --out "$tmp/k" > /dev/null 2>&1 &
    pid=$!
    sleep "0.$(printf %03d $((RANDOM % 130)))"
    kill -9 $pid 2> /dev/null && whole=$((whole + 1))
    wait $pid 2> /dev/null
    kept=$("$ASSAY" cat "$tmp/k/verdicts.msgpack" 2> /dev/null | wc -l)
    sent=$(($(asked slow) - before))
    # Since the last kill: asked, less what is kept of it.
    gone=$((sent - kept - at))
    [ $gone -gt $FLIGHT ] && lost=$((lost + 1)) && echo "# kill $k: $gone asked and not kept"
    at=$((sent - kept))
done
is "$whole" $KILLS "killed $KILLS times"
is "$lost" 0 "no kill lost more than the $FLIGHT in flight"
[ -e "$tmp/k/scores.msgpack" ] && echo "# it was complete before the last kill"
judge k
ok "run again: complete" test -s "$tmp/k/scores.msgpack"
ok "to the bytes of a straight judging" cmp "$tmp/k/scores.msgpack" "$tmp/straight/scores.msgpack"
is "$("$ASSAY" cat "$tmp/k/verdicts.msgpack" | grep -o '"key":"[^"]*"' | sort | uniq -d | wc -l)" 0 "and no verdict is there twice"
is "$("$ASSAY" cat "$tmp/k/verdicts.msgpack" | wc -l)" $N "each of the $N once"
exec 7>&-
done_testing
