#!/usr/bin/env bash
# assay judge with every protocol, repeats, labels and panels, against a judge that sees quality.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'exec 7>&-; rm -rf "$tmp"' EXIT
mkfifo "$tmp/in"
perl tests/judge_sim.pl "$tmp/rules" "$tmp/log" < "$tmp/in" > "$tmp/port" &
exec 7> "$tmp/in"
for _ in $(seq 100); do [ -s "$tmp/port" ] && break; sleep 0.05; done
J=http://127.0.0.1:$(cat "$tmp/port")/v1#sim
rules() { echo "$*" > "$tmp/rules"; }
asked() { wc -l < "$tmp/log"; }
rules ''

# ---- 12 items; model mK answers with quality about K
items=12
make_items() {
    echo '['
    for k in $(seq $items); do
        [ "$k" -gt 1 ] && echo ','
        printf '{"id":"i%s","instruction":"question %s","input":"","output":"right %s"}' "$k" "$k" "$k"
    done
    echo ']'
}
make_items > "$tmp/items.json"
answers() { # name quality [file]: responses of one model, quality + 0..2 by item
    "$ASSAY" eval --task instruct --model "${J%#*}#$1:$2" --items "$tmp/items.json" --template plain \
        --out "$tmp/${3:-$1}.msgpack" > "$tmp/out" 2> "$tmp/err" || cat "$tmp/err"
}
answers good 80
answers fair 60
answers poor 30
judge=("$ASSAY" judge --judge "$J" --items "$tmp/items.json" --retries 0)
mean() { # file: mean of the values
    "$ASSAY" cat "$1" | grep -o '"value":[0-9.]*' | cut -d: -f2 | awk '{s += $1} END {printf "%.2f", s / NR}'
}

# ---- single: several responses, rubric, JSON
ok "single, three models" quiet "${judge[@]}" --responses "$tmp/good.msgpack" "$tmp/fair.msgpack" "low=$tmp/poor.msgpack" --out "$tmp/s"
ok "each has its line" says '^fair: 12 of 12 scored, mean 61.00'
is "$(mean "$tmp/s/scores/good.msgpack") $(mean "$tmp/s/scores/low.msgpack")" "81.00 31.00" "and its scores, under its name"
is "$(asked)" 36 "with one question an answer"
ok "two of one name are refused" fails 2 'two responses are named good' "${judge[@]}" --responses "$tmp/good.msgpack" "$tmp/good.msgpack" --out "$tmp/x"
ok "rubric 1-5" quiet "${judge[@]}" --prompt rubric5 --responses "$tmp/good.msgpack" --out "$tmp/r"
ok "gives 4 of 5" says '12 of 12 scored, mean 4.00'
ok "JSON by a schema" quiet "${judge[@]}" --structured on --responses "$tmp/good.msgpack" --out "$tmp/js"
ok "is read" says '12 of 12 scored, mean 81.00'
before=$(asked)
ok "equal answers are sent once" quiet "${judge[@]}" --responses "$tmp/good.msgpack" "twin=$tmp/good.msgpack" --out "$tmp/twin"
is "$(($(asked) - before)) $(mean "$tmp/twin/scores/twin.msgpack")" "12 81.00" "and both have their scores"

# ---- two judges
rules own:good=7
ok "another judge of the same answers" quiet "${judge[@]}" --seed 7 --responses "$tmp/good.msgpack" "$tmp/fair.msgpack" --out "$tmp/s2"
rules ''
ok "agree measures how far they agree" quiet "$ASSAY" agree "$tmp/s/scores/fair.msgpack" "$tmp/s2/scores/fair.msgpack"
ok "all the way" says '^kendall tau-b *1.000'
ok "a shift is seen" bash -c "'$ASSAY' agree '$tmp/s/scores/good.msgpack' '$tmp/s2/scores/good.msgpack' | grep -q '^mean of b - a *7.000'"
ok "a wrong scale is refused" fails 2 'outside of 1..5' "$ASSAY" agree "$tmp/s/scores/good.msgpack" "$tmp/s2/scores/good.msgpack" --lo 1 --hi 5

# ---- repeats tell the judge's noise from the items'
rules noise=4
ok "judged four times" quiet "${judge[@]}" --repeat 4 --asks 1 --responses "$tmp/fair.msgpack" --out "$tmp/rep"
ok "the judge's sd and the items'" says 'noise: sd [0-9.]* of one verdict (the judge), [0-9.]* of items, over 12 items'
rules ''

# ---- joint
ok "joint" quiet "${judge[@]}" --protocol joint --responses "$tmp/good.msgpack" "$tmp/fair.msgpack" "$tmp/poor.msgpack" --out "$tmp/jt"
is "$(mean "$tmp/jt/scores/good.msgpack") $(mean "$tmp/jt/scores/fair.msgpack") $(mean "$tmp/jt/scores/poor.msgpack")" "81.00 61.00 31.00" "every answer gets its own score, whatever its label"
is "$("$ASSAY" cat "$tmp/jt/verdicts.msgpack" | grep -c .)" 12 "with one question an item"
ok "orders differ from item to item" [ "$("$ASSAY" cat "$tmp/jt/verdicts.msgpack" | grep -o '"shown":\[[^]]*\]' | sort -u | wc -l)" -ge 3 ]
"${judge[@]}" --protocol joint --responses "$tmp/poor.msgpack" "$tmp/good.msgpack" "$tmp/fair.msgpack" --out "$tmp/jt2" > "$tmp/out" 2>&1
is "$(tail -24 "$tmp/log" | head -12 | sort | cmp - <(tail -12 "$tmp/log" | sort) && echo same)" same "but not with the order on the command line"
rules omit=1
before=$(asked)
ok "a verdict that lacks one is asked again" quiet "${judge[@]}" --protocol joint --responses "$tmp/good.msgpack" "$tmp/fair.msgpack" --out "$tmp/om"
is "$(mean "$tmp/om/scores/good.msgpack") $(mean "$tmp/om/scores/fair.msgpack") $(($(asked) - before))" "81.00 61.00 24" "and then complete"
before=$(asked)
ok "asked once only, it has failed" fails 4 '12 of 12 questions have no verdict' "${judge[@]}" --protocol joint --asks 1 --responses "$tmp/fair.msgpack" "$tmp/poor.msgpack" --out "$tmp/om1"
is "$("$ASSAY" cat "$tmp/om1/verdicts.msgpack" | grep -c '"outcome":"parse_failed"')" 12 "as parse_failed"
rules ''
ok "run again, it asks for these" quiet "${judge[@]}" --protocol joint --asks 1 --responses "$tmp/fair.msgpack" "$tmp/poor.msgpack" --out "$tmp/om1"
is "$(mean "$tmp/om1/scores/fair.msgpack") $(mean "$tmp/om1/scores/poor.msgpack")" "61.00 31.00" "and is complete"

# ---- pairwise
before=$(asked)
ok "pairwise" quiet "${judge[@]}" --protocol pairwise --responses "$tmp/fair.msgpack" "$tmp/good.msgpack" "$tmp/poor.msgpack" --out "$tmp/p"
ok "says the number of questions before" grep -q 'pairwise: 48 questions to ask, 0 kept' "$tmp/err"
is "$(($(asked) - before))" 48 "both orders, each against the baseline"
ok "the better one wins" says '^good against fair: 12 of 12 scored, share of wins 1.000'
ok "the other loses" says '^poor against fair: 12 of 12 scored, share of wins 0.000'
ok "orders swapped keep their winner" says '12 of 12 items keep their winner'
is "$(mean "$tmp/p/scores/good-vs-fair.msgpack")" 1.00 "scores are a file a pair"
rules first=1
ok "a judge that takes the first" quiet "${judge[@]}" --protocol pairwise --pairs all --responses "$tmp/fair.msgpack" "$tmp/good.msgpack" --out "$tmp/p1"
ok "is a draw" says 'share of wins 0.500'
ok "and never consistent" says ' 0 of 12 items keep their winner (0.000 .*the first answer wins 1.000'
rules ''
answers good 80 same2
before=$(asked)
ok "equal answers" quiet "${judge[@]}" --protocol pairwise --responses "$tmp/good.msgpack" "same=$tmp/same2.msgpack" --out "$tmp/eq"
is "$(($(asked) - before)) $(mean "$tmp/eq/scores/same-vs-good.msgpack")" "0 0.50" "are ties that nobody needs to judge"
ok "one alone makes no pair" fails 2 'at least two' "${judge[@]}" --protocol pairwise --responses "$tmp/good.msgpack" --out "$tmp/x"
ok "a prompt of another protocol is refused" fails 2 'one for --protocol joint' "${judge[@]}" --prompt joint100 --responses "$tmp/good.msgpack" --out "$tmp/x"

# ---- people's labels
for k in $(seq 10); do
    printf '{"instruction":"q%s","output":"r","a":"a%s quality %s","b":"b%s quality 50","label":"%s"}\n' \
        $k $k $((k * 9)) $k $([ $k -ge 6 ] && echo a || echo b)
done > "$tmp/labels.jsonl"
echo '{"instruction":"q11","output":"r","a":"x quality 50","b":"y quality 50","label":"tie"}' >> "$tmp/labels.jsonl"
echo '{"instruction":"q12","output":"r","a":"x quality 10","b":"y quality 50","label":"a"}' >> "$tmp/labels.jsonl"
ok "a judge against people, pairwise" quiet "$ASSAY" judge --judge "$J" --calibrate "$tmp/labels.jsonl" --protocol pairwise --out "$tmp/cal"
ok "ten of eleven right" says '^labels: 12 pairs, 1 of them ties for people; of the others the judge has 10 right (0.909 .*), 1 wrong, 0 a tie, 0 without'
ok "and by single scores" quiet "$ASSAY" judge --judge "$J" --calibrate "$tmp/labels.jsonl" --out "$tmp/cal1"
ok "likewise" says 'has 10 right (0.909'
echo '{"instruction":"q","output":"r","a":"x","b":"y","label":"maybe"}' > "$tmp/maybe.jsonl"
ok "a label that is none is named" fails 1 'row 1.*maybe' "$ASSAY" judge --judge "$J" --calibrate "$tmp/maybe.jsonl" --out "$tmp/x"

# ---- money
printf '[price]\nmodel = sim\ncurrency = EUR\ninput = 100\noutput = 1000\nsource = test\ndate = 2026-11-30\n' > "$tmp/price.ini"
ok "with a price the money is said" quiet "${judge[@]}" --responses "$tmp/good.msgpack" --price "$tmp/price.ini" --out "$tmp/m"
ok "12 x (100 x 100 + 10 x 1000) / 1e6" says '; 0.24 EUR'
ok "a cap of money stops before it is passed" fails 4 'cap of money' "${judge[@]}" --responses "$tmp/good.msgpack" --price "$tmp/price.ini" --max-money 0.15 --concurrency 1 --seed 5 --out "$tmp/m2"
ok "with what was paid for kept" [ "$("$ASSAY" cat "$tmp/m2/verdicts.msgpack" | wc -l)" -ge 1 ]
ok "and not passed" awk '{exit !($0 <= 0.15)}' <(grep -o '[0-9.]* EUR' "$tmp/out" | cut -d' ' -f1)
ok "money without a price is refused" fails 2 'price' "${judge[@]}" --responses "$tmp/good.msgpack" --max-money 1 --out "$tmp/m3"
before=$(asked)
ok "a dry run says what it would cost" quiet "${judge[@]}" --responses "$tmp/good.msgpack" --price "$tmp/price.ini" --seed 9 --dry-run --out "$tmp/dry"
is "$(grep -c '12 questions to ask.*EUR' "$tmp/err") $(($(asked) - before))" "1 0" "and asks nothing"

printf '[run]\n[judge]\nprice = %s\nmax_money = 0.15\nconcurrency = 1\nseed = 6\n' "$tmp/price.ini" > "$tmp/run.ini"
ok "a run file has the cap and the price" fails 4 'cap of money' "${judge[@]}" --config "$tmp/run.ini" --responses "$tmp/good.msgpack" --out "$tmp/m4"

# ---- panels
for m in 1 2 3 4 5 6 7; do answers m$m $((10 + 11 * m)); done
panel() { "$ASSAY" judge --panel "$tmp/pan" --retries 0 --baseline m2 "$@"; }
before=$(asked)
ok "a panel of seven" quiet panel --judge "$J" --items "$tmp/items.json" --responses "$tmp"/m[1-7].msgpack
ok "has two anchors" [ "$(grep -c '(anchor)' "$tmp/out")" = 2 ]
is "$(($(asked) - before))" 24 "two questions of four beside the anchors an item: 5 models, reference, empty"
is "$("$ASSAY" cat "$tmp/pan/verdicts.msgpack" | grep -o '"shown":\[[^]]*\]' | awk -F'","' '{print NF}' | sort -u)" 6 "each with six answers"
ok "differences are right" says '^m7.*from the baseline  +55.00 \['
ok "and the sanity answers where they should be" says 'sanity, pass 1: reference 97.0, .* empty answer 0.0$'
ok "panel.ini has the design" grep -q '^size = 4' "$tmp/pan/panel.ini"
ok "again: up to date, nothing asked" quiet panel
is "$(($(asked) - before))" 24 "nothing asked"

rules drift=-15
answers newa 70
before=$(asked)
ok "a new model, a judge that has drifted" quiet panel --responses "$tmp/newa.msgpack"
is "$(($(asked) - before))" 12 "one question an item: it, three of before, the anchors"
ok "linked, the drift falls out" says '^newa: pass 2, 12 of 12 items, mean 56.00.*from the baseline  +38.00 \[.* (linked)'
ok "the link is supported" says 'link of pass 1 and 2: adds sd'
rules drift=10 stretch=0.5
answers new3 72
ok "a judge that has stretched its scale" quiet panel --responses "$tmp/new3.msgpack"
ok "is no link" says 'link of pass 1 and 3: not supported: the judge has stretched its scale'
ok "nor is the difference" says '^new3:.*no interval: the judge has stretched'
rules ''
before=$(asked)
panel --rejudge all --dry-run --price "$tmp/price.ini" > "$tmp/out" 2> "$tmp/err"
is "$(grep -c 'questions to ask.*EUR' "$tmp/err") $(($(asked) - before))" "1 0" "--rejudge all names its price"
ok "and asks" quiet panel --rejudge all
ok "then all are in one pass" says '^new3: pass 4.*from the baseline  +40.00 \['
answers m1 99
ok "other answers under an old name are a new version" quiet panel --responses "$tmp/m1.msgpack"
ok "another judge is another panel" fails 2 'another panel' panel --judge http://127.0.0.1:1/v1#x
ok "a panel of one is refused" fails 2 'at least two' "$ASSAY" judge --panel "$tmp/one" --judge "$J" --items "$tmp/items.json" --responses "$tmp/good.msgpack"
ok "so is one with a judge that is none" fails 2 'llama3' "$ASSAY" judge --panel "$tmp/one" --judge llama3 --items "$tmp/items.json" --responses "$tmp/good.msgpack" "$tmp/fair.msgpack"
quiet "$ASSAY" judge --panel "$tmp/one" --judge "$J" --items "$tmp/items.json" --responses "$tmp/good.msgpack" "$tmp/fair.msgpack" --dry-run
ok "neither they nor a dry run leave a folder" [ ! -e "$tmp/one" ]
sed 's/"input":""/"input":"","cluster":"c"/' "$tmp/items.json" > "$tmp/clustered.json"
ok "a panel over items of one cluster" quiet "$ASSAY" judge --panel "$tmp/clu" --judge "$J" --items "$tmp/clustered.json" --responses "$tmp/good.msgpack" "$tmp/fair.msgpack"
is "$("$ASSAY" cat "$tmp/clu/scores/1/good.msgpack" | grep -c '"cluster":"c"')" 12 "tells compare which items belong together"
ok "blocks fit the context" quiet "$ASSAY" judge --panel "$tmp/ctx" --judge "$J" --items "$tmp/items.json" --responses "$tmp"/m[2-7].msgpack --context 400
ok "with fewer answers each, which is said" grep -q 'answers beside the anchors fit the context of 400' "$tmp/err"
# ---- runs, through make
for m in 2 3 5; do
    mkdir -p "$tmp/runs/r$m/eval"
    cp "$tmp/m$m.msgpack" "$tmp/runs/r$m/eval/responses-1.msgpack"
    printf '[data]\nrun = %s\n[run]\ntitle = x\n' "$([ $m = 2 ] || echo r2)" > "$tmp/runs/r$m/run.ini"
done
sed 's/"id"/"split":"test","id"/; $ s/]$/,{"id":"t","split":"train","instruction":"x","output":""},{"id":"v","split":"val","instruction":"y","output":""}]/' "$tmp/items.json" > "$tmp/test.json"
ok "the runs have test items" quiet "$ASSAY" split --instruct "$tmp/test.json" --out "$tmp/runs/r2/data"
make_judge() { make --no-print-directory DEPS=0 BUILD="$BUILD" RUNS_DIR="$tmp/runs" PANELS_DIR="$tmp/panels" judge "$@"; }
touch "$tmp/log.before"
ok "make judge: three runs in a panel" quiet make_judge PANEL=p RUNS="r3 r5 r2" JUDGE="$J"
ok "with each run under its name" says '^r5.*: pass 1, 12 of 12 items, mean 66.00'
ok "the runs are as they were" [ "$(find "$tmp/runs" -newer "$tmp/log.before" -type f | wc -l)" = 0 ]
for bad in ../x a/b .. '-x'; do
    ok "PANEL=$bad is no name" fails 2 'is no name of a panel' make_judge PANEL="$bad" RUNS="r3 r5" JUDGE="$J"
done
ok "a run without answers is named" fails 2 'run none has no answers' make_judge PANEL=q RUNS="none" JUDGE="$J"
exec 7>&-
done_testing
