#!/usr/bin/env bash
# judge_check: every protocol through a real llama.cpp server, as TAP: make judge-check.
#
#   judge_check.sh URL#MODEL
#
# The judge is small and its verdicts are worth nothing; what is checked is that requests are taken,
# that JSON by a schema comes back as asked and in range, and that free text is scored or has failed
# by name, never anything else.
. tests/cli/tap.sh
J=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat > "$tmp/items.json" <<'X'
[{"id":"a","instruction":"Name the capital of France.","output":"Paris."},
 {"id":"b","instruction":"Add the numbers.","input":"2 and 3","output":"5"},
 {"id":"c","instruction":"Write the plural of mouse.","output":"mice"}]
X
ask() { # template out
    "$ASSAY" eval --task instruct --model "$J" --items "$tmp/items.json" --template "$1" --out "$2" > "$tmp/out" 2> "$tmp/err"
}
ok "the server is a candidate" ask plain "$tmp/one.msgpack"
ok "and another one, with another template" ask alpaca "$tmp/two.msgpack"
verdicts() { "$ASSAY" cat "$1/verdicts.msgpack"; }
count() { verdicts "$1" | grep -c "$2"; }
run() { # name words-of-judge...
    local name=$1
    shift
    timeout 280 "$ASSAY" judge --judge "$J" --items "$tmp/items.json" --out "$tmp/$name" --concurrency 1 --timeout 120 "$@" \
        --responses one="$tmp/one.msgpack" two="$tmp/two.msgpack" > "$tmp/out" 2> "$tmp/err"
}
constrained() { # name options...
    local name=$1
    run "$@" --structured on --max-failed 0
    result $? "$name, by a schema: all questions are scored"
    sed 's/^/# /' "$tmp/out"
    is "$(count "$tmp/$name" '"outcome":"scored"')" "$(verdicts "$tmp/$name" | wc -l)" "$name, by a schema: every verdict is in range at once"
    ok "$name: the model served is recorded, and tokens are counted" bash -c "! '$ASSAY' cat '$tmp/$name/verdicts.msgpack' | grep -v '\"judge\":\"smollm2.*\"tokens_in\":[1-9]' | grep -q ."
}
free() { # name options...
    local name=$1 rc
    run "$@" --structured off --max-failed 1 --asks 1
    rc=$?
    result $rc "$name, free: ends with an outcome for each question"
    sed 's/^/# /' "$tmp/out"
    is "$(count "$tmp/$name" '"outcome":"\(scored\|parse_failed\|truncated\)"')" "$(verdicts "$tmp/$name" | wc -l)" "$name, free: scored, parse_failed or truncated, nothing else"
}
constrained single-json
free single
constrained rubric-json --prompt rubric5
free rubric --prompt rubric5 --max-tokens 60
constrained joint-json --protocol joint
free joint --protocol joint
constrained pairwise-json --protocol pairwise
free pairwise --protocol pairwise
ok "doctor: the judge can be reached, and what a question costs" bash -c "'$ASSAY' doctor --judge '$J' --price local | grep '^judge' | sed 's/^/# /' > '$tmp/doctor'; cat '$tmp/doctor' >&2; grep -q 'answers' '$tmp/doctor'"
done_testing
