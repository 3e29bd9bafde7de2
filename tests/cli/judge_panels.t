#!/usr/bin/env bash
# Panels over time: passes that a cap leaves open, answers that change, options that would be ignored.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'exec 7>&-; rm -rf "$tmp"' EXIT
make="$BUILD/tests/results"
mkfifo "$tmp/in"
perl tests/judge_sim.pl "$tmp/rules" "$tmp/log" < "$tmp/in" > "$tmp/port" &
exec 7> "$tmp/in"
for _ in $(seq 100); do [ -s "$tmp/port" ] && break; sleep 0.05; done
J=http://127.0.0.1:$(cat "$tmp/port")/v1#sim
rules() { echo "$*" > "$tmp/rules"; }
asked() { wc -l < "$tmp/log"; }
rules ''
for k in $(seq 12); do
    printf '{"id":"i%s","instruction":"question %s","input":"","output":"right %s"}\n' "$k" "$k" "$k"
done > "$tmp/items.jsonl"
answers() { # name quality [file]
    "$ASSAY" eval --task instruct --model "${J%#*}#$1:$2" --items "$tmp/items.jsonl" --template plain \
        --out "$tmp/${3:-$1}.msgpack" > "$tmp/out" 2> "$tmp/err" || cat "$tmp/err"
}
for m in 1 2 3 4 5 6 7; do answers m$m $((10 + 11 * m)); done
new() { # folder options...: a first pass
    local dir=$1
    shift
    [ "$1" = --responses ] || set -- --responses "$tmp"/m[1-6].msgpack "$@"
    "$ASSAY" judge --panel "$tmp/$dir" --retries 0 --judge "$J" --items "$tmp/items.jsonl" "$@"
}
panel() { "$ASSAY" judge --panel "$tmp/${P:-p}" --retries 0 "$@"; }

# ---- a pass that a cap leaves open
ok "a first pass that a cap stops" fails 4 'cap of 9 requests' new p --max-requests 9
ok "is shown as unfinished" says '^pass 1: 9 of 24 questions scored, 15 not_run; UNFINISHED'
ok "with what the missing scores could do" says '^m1: pass 1 (unfinished), [0-9]* of [0-9]* items, mean'
before=$(asked)
ok "a new model has it finished first" quiet panel --responses "$tmp/m7.msgpack"
ok "which is said" grep -q 'pass 1 is unfinished, 9 of 24 questions have a verdict: it goes on first' "$tmp/err"
is "$(($(asked) - before))" $((15 + 12)) "with what was missing, then the new pass"
ok "both are whole" says '^pass 2: 12 of 12 questions scored$'
ok "and linked" says '^link of pass 1 and 2: adds sd'
ok "a pass with all that a cap stops" fails 4 'cap of 5 requests' panel --rejudge all --max-requests 5
ok "does not take the place of a whole one" says '^m7: pass 2, 12 of 12 items'
ok "its link is not supported" says '^link of pass 2 and 3: not supported: a pass is unfinished$'
answers m8 91
ok "an open pass that stays open" fails 4 'cap of 3 requests' panel --responses "$tmp/m8.msgpack" --max-requests 3
ok "lets no new one begin" [ "$("$ASSAY" cat "$tmp/p/passes.msgpack" | wc -l)" = 3 ]
mkdir "$tmp/one"
"$make" "$tmp/one/result.msgpack" m7 g 1 n=100
ok "compare says that it is unfinished" fails 4 'panel p is unfinished' "$ASSAY" compare "$tmp/one" --panel "$tmp/p"
before=$(asked)
ok "the command that it was begun with finishes it" quiet panel --rejudge all
is "$("$ASSAY" cat "$tmp/p/passes.msgpack" | wc -l) $(($(asked) - before))" "3 $((24 - 5 - 3))" "and pays for no other pass with all"
ok "then it counts" says '^m7: pass 3, 12 of 12 items'
rules ''

# ---- answers that change
answers m1 12
before=$(asked)
ok "other answers under an old name are a new version" quiet panel --responses "$tmp/m1.msgpack"
ok "which is said" grep -q 'm1 has other answers than in pass 3: they are judged as a new version, the old one is m1@' "$tmp/err"
is "$(($(asked) - before))" 12 "in one more pass"
ok "the new one has its own score" says '^m1: pass 4, 12 of 12 items, mean 13.00'
ok "the old one keeps its own" says '^m1@[0-9a-f]\{8\}: pass 3, 12 of 12 items, mean 22.00'
before=$(asked)
ok "again: nothing new" quiet panel --responses "$tmp/m1.msgpack"
is "$(($(asked) - before))" 0 "and nothing asked"
answers m4 45
ok "other answers of an anchor" quiet panel --responses "$tmp/m4.msgpack"
ok "stand beside the old ones, which link" says '^m4@[0-9a-f]\{8\}: pass 5, 12 of 12 items, mean 46.00'
ok "and are the anchor still" says '^m4 (anchor): pass 5, 12 of 12 items, mean 55.00'
ok "again" quiet panel --responses "$tmp/m4.msgpack"
is "$(($(asked) - before)) $("$ASSAY" cat "$tmp/p/passes.msgpack" | wc -l)" "12 5" "they are known"
rm "$tmp"/m[1-4].msgpack*
before=$(asked)
ok "the report needs none of the files" quiet panel
ok "nor does a pass with all" quiet panel --rejudge all
ok "which asks about the newest versions" says '^m1: pass 6, 12 of 12 items, mean 13.00'
rm -r "$tmp/p/answers"
ok "without the copies it can't be asked" fails 1 'm[1-4].msgpack' panel
ok "but the report is there" says '^m7: pass 6'
for m in 1 2 3 4; do answers m$m $((10 + 11 * m)); done

# ---- two anchors that say the same are one
cp "$tmp/m3.msgpack" "$tmp/twin.msgpack"
P=twin
ok "two anchors with the same answers" quiet new twin --responses "$tmp"/m[1-6].msgpack "$tmp/twin.msgpack" --anchors m3 twin
ok "and a second pass" quiet panel --responses "$tmp/m7.msgpack"
ok "count once in the degrees of freedom: 3 / (1 + 2 / 4)" says '^link of pass 1 and 2: adds sd 0.00 (df 2.0, from 3 models'

# ---- compare and runs that were answered anew
for m in 5 6; do
    mkdir -p "$tmp/runs/m$m/eval"
    "$make" "$tmp/runs/m$m/result.msgpack" m$m g $m n=100
    seed=$("$ASSAY" cat "$tmp/runs/m$m/result.msgpack" | grep -o '"finetune":{[^}]*' | grep -o '"seed":[0-9]*' | cut -d: -f2)
    cp "$tmp/m$m.msgpack" "$tmp/runs/m$m/eval/responses-${seed:-0}.msgpack"
    answer[m]=$tmp/runs/m$m/eval/responses-${seed:-0}.msgpack
done
P=q
ok "a panel of runs" quiet "$ASSAY" judge --panel "$tmp/q" --judge "$J" --items "$tmp/items.jsonl" --responses m5="${answer[5]}" m6="${answer[6]}"
ok "compare has its column" quiet "$ASSAY" compare "$tmp/runs" --panel "$tmp/q"
ok "of both" says '^judge_joint, q pass 1'
cp "$tmp/m7.msgpack" "${answer[6]}"
ok "answers that changed since are not comparable" quiet "$ASSAY" compare "$tmp/runs" --panel "$tmp/q"
ok "which is said by name" grep -q "not comparable: run m6's answers changed since panel q judged them" "$tmp/err"
ok "and their old score is not shown" bash -c "sed -n '/^judge_joint/,/^\$/p' '$tmp/out' | grep -q 'm6.*not measured'"
ok "alone it is an error" fails 1 "not comparable: run m6's answers changed" "$ASSAY" compare "$tmp/runs/m6" "$tmp/runs/m6/result.msgpack" --panel "$tmp/q"
ok "the new answers are judged" quiet panel --responses m5="${answer[5]}" m6="${answer[6]}"
ok "and nobody complains" quiet "$ASSAY" compare "$tmp/runs" --panel "$tmp/q"
ok "any more" bash -c "! grep -q 'not comparable: run' '$tmp/err'"

# ---- options that would be ignored
refuses() { # option words options...
    local o=$1 words=$2
    shift 2
    ok "$o is refused" fails 2 "$words" "$@"
}
before=$(asked)
P=r
quiet new r
sed 's/question/query/' "$tmp/items.jsonl" > "$tmp/other.jsonl"
cp "$tmp/items.jsonl" "$tmp/same.jsonl"
has='leave it out, or make another panel'
refuses --panel-size "size = 4, which --panel-size can't change: $has" panel --panel-size 3
refuses --items "other items .*--items" panel --items "$tmp/other.jsonl"
refuses --anchors "the anchors .*--anchors" panel --anchors m1
refuses --seed "seed = 123.*--seed" panel --seed 7
refuses --temperature "temperature = 0.*--temperature" panel --temperature 1
refuses --context "context = 0.*--context" panel --context 4000
refuses --max-tokens "max_tokens = .*--max-tokens" panel --max-tokens 400
refuses --prompt "prompt = joint100.*--prompt" panel --prompt score100
refuses --no-sanity "sanity = true.*--no-sanity" panel --no-sanity
refuses --repeat "no meaning with --panel" panel --repeat 2
refuses --pairs "no meaning with --panel" panel --pairs all
refuses "--protocol pairwise" "no meaning with --panel" panel --protocol pairwise
ok "what agrees is not" quiet panel --panel-size 4 --seed 123 --prompt joint100 --items "$tmp/same.jsonl" --protocol joint
plain() { "$ASSAY" judge --judge "$J" --items "$tmp/items.jsonl" --responses "$tmp/m5.msgpack" --out "$tmp/x" "$@"; }
for o in "--panel-size 3" "--anchors m1" "--rejudge all" "--context 400" --no-sanity; do
    refuses "$o without a panel" 'is an option of panels: give --panel DIR' plain $o
done
for o in "--pairs all" "--baseline m5"; do
    refuses "$o with single questions" 'is an option of --protocol pairwise' plain $o
done
ok "none of them left a folder" [ ! -e "$tmp/x" ]
exec 7>&-
done_testing
