#!/usr/bin/env bash
# assay score, from the outside: answers of known quality get the scores they deserve.
set -u
n=0
bad=0
ok() { # status text
    n=$((n + 1))
    if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; bad=1; fi
}
fails() { # wanted exit, wanted words, then the command
    local want=$1 words=$2 rc
    shift 2
    "$@" >"$tmp/out" 2>"$tmp/err"
    rc=$?
    [ $rc = "$want" ] && grep -q -- "$words" "$tmp/err" && return 0
    echo "# exit $rc, want $want; said: $(cat "$tmp/err")"
    return 1
}
respond="$(cd "$BUILD" && pwd)/tests/unit/test_scorers respond"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

"$ASSAY" corpus --out c --docs 10 --seed 1 2>err
for grade in right reworded padded wrong empty; do
    $respond c/instruct.json $grade.msgpack $grade
    case $grade in wrong | empty) want=0 ;; *) want=1 ;; esac
    "$ASSAY" score --scorer exact --items c/instruct.json --responses $grade.msgpack --out e-$grade.msgpack 2>err
    ok $? "exact scores $grade answers"
    grep -q "\"value\": $want\(\.0\)\?,\?$" e-$grade.msgpack.manifest.json
    ok $? "their mean is $want"
done
"$ASSAY" score --scorer overlap --items c/instruct.json --responses right.msgpack --out o.msgpack 2>err &&
    grep -q 'f1_overlap 1.0000 over 288 of 288' err
ok $? "overlap scores right answers 1 and says the metric's name and count"
"$ASSAY" score --scorer overlap --items c/instruct.json --responses right.msgpack --out o.msgpack --verbose 2>err && grep -q 'up to date' err
ok $? "a second call does nothing"
"$ASSAY" score --scorer exact --items c/instruct.json --responses right.msgpack --out o.msgpack --verbose 2>err && ! grep -q 'up to date' err
ok $? "another scorer writes anew"

$respond c/instruct.json some.msgpack right 200
"$ASSAY" score --scorer exact --items c/instruct.json --responses some.msgpack --out s.msgpack 2>err &&
    grep -q '88 items have no score (88 not run' err && grep -q '"not_run": 88' s.msgpack.manifest.json
ok $? "missing responses are not run, counted and said"
echo '[{"id": "one", "instruction": "a", "output": "b"}]' >one.json
fails 1 'home-Mara-1' "$ASSAY" score --scorer exact --items one.json --responses right.msgpack --out u.msgpack && [ ! -e u.msgpack ]
ok $? "a response to an unknown item is named, nothing is written"
fails 2 'exact (acc_exact), overlap (f1_overlap)' "$ASSAY" score --scorer blue --items c/instruct.json --responses right.msgpack --out u.msgpack
ok $? "an unknown scorer is a usage error that lists the known ones"
fails 1 'nowhere' "$ASSAY" score --scorer exact --items nowhere.json --responses right.msgpack --out u.msgpack
ok $? "missing items are named"
fails 1 'nowhere' "$ASSAY" score --scorer exact --items c/instruct.json --responses nowhere.msgpack --out u.msgpack
ok $? "missing responses are named"
echo garbage >g.msgpack
fails 1 'g.msgpack' "$ASSAY" score --scorer exact --items c/instruct.json --responses g.msgpack --out u.msgpack && [ ! -e u.msgpack ]
ok $? "a file that holds no records is named"
fails 2 'scorer' "$ASSAY" score --items c/instruct.json --responses right.msgpack --out u.msgpack
ok $? "a scorer must be said"
fails 1 '.' env ASSAY_FAULT=write:1 "$ASSAY" score --scorer exact --items c/instruct.json --responses wrong.msgpack --out s.msgpack &&
    [ ! -e s.msgpack.manifest.json ]
ok $? "a failing disk leaves no manifest"
echo "1..$n"
exit $bad
