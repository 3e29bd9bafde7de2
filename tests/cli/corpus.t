#!/usr/bin/env bash
# assay corpus and assay split, from the outside.
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
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

"$ASSAY" corpus --out c1 --docs 600 --seed 1 2>err
ok $? "assay corpus writes a corpus"
[ "$(wc -l <c1/docs.jsonl)" = 600 ]
ok $? "docs.jsonl has a line for each document"
[ "$(grep -c '"oracle_bits"' c1/docs.jsonl)" = 600 ]
ok $? "each with its oracle_bits"
[ "$(grep -c '"instruction"' c1/instruct.json)" = 288 ] && [ -s c1/truth.json ] && [ -s c1/manifest.json ]
ok $? "instruct.json has 288 questions, truth.json and the manifest are there"
"$ASSAY" corpus --out c2 --docs 900 --seed 1 2>err && head -600 c2/docs.jsonl | cmp -s - c1/docs.jsonl
ok $? "more documents of one seed begin with the same ones"
"$ASSAY" corpus --out c3 --docs 600 --seed 2 2>err && ! cmp -s c3/docs.jsonl c1/docs.jsonl &&
    cmp -s c3/instruct.json c1/instruct.json && cmp -s c3/truth.json c1/truth.json
ok $? "another seed gives other documents about the same world"
touch -d '2001-01-01' c1/docs.jsonl
"$ASSAY" corpus --out c1 --docs 600 --seed 1 2>err && [ "$(stat -c %Y c1/docs.jsonl)" -lt 1000000000 ]
ok $? "a second call does nothing"
"$ASSAY" corpus --out c1 --docs 601 --seed 1 2>err && [ "$(wc -l <c1/docs.jsonl)" = 601 ]
ok $? "other options write it anew"
fails 2 'docs' "$ASSAY" corpus --out c4 --docs 0 && [ ! -e c4 ]
ok $? "no documents at all is refused, and nothing is written"
: >file
fails 1 'file' "$ASSAY" corpus --out file/x --docs 5
ok $? "a folder that cannot be made is named"

"$ASSAY" split --out s --in c2/docs.jsonl --holdout 0.1 --instruct c2/instruct.json 2>err
ok $? "assay split takes documents and instructions"
[ "$(cat s/train.jsonl s/test.jsonl | sort | cmp - <(sort c2/docs.jsonl) && wc -l <s/train.jsonl)" -gt 700 ]
ok $? "every document is in train or test, unchanged"
[ -s s/instruct_train.msgpack ] && [ -s s/instruct_val.msgpack ] && [ -s s/instruct_test.msgpack ]
ok $? "instructions are there in three files"
grep -q '"train": 192' s/manifest.json && grep -q '"val": 24' s/manifest.json &&
    grep -q '"test": 72' s/manifest.json
ok $? "split as the corpus says: 192, 24 and 72 questions"
"$ASSAY" split --out s --in c2/docs.jsonl --holdout 0.1 --instruct c2/instruct.json --verbose 2>err &&
    grep -q 'up to date' err
ok $? "a second call says that it is up to date"
printf '\xef\xbb\xbfone\r\n\r\n\r\n\r\ntwo\xff\r\n' >a.txt
"$ASSAY" split --out t --in a.txt --test-in c1/docs.jsonl --clean 2>err &&
    grep -q '"one\\n\\ntwo�\\n"' t/train.jsonl && [ "$(wc -l <t/test.jsonl)" = 601 ]
ok $? "--clean tidies text, bad UTF-8 is replaced, --test-in is the test split"
fails 1 'a.txt' "$ASSAY" split --out u --in a.txt --test-in c1/docs.jsonl --bad-utf8 error &&
    [ ! -e u/train.jsonl ] && [ ! -e u/manifest.json ]
ok $? "--bad-utf8 error names the file and leaves nothing"
fails 1 'nowhere' "$ASSAY" split --out u --in nowhere.jsonl
ok $? "a missing input is named"
fails 1 'holdout' "$ASSAY" split --out u --in a.txt
ok $? "one document cannot be split by share: says what to do"
fails 2 '--in' "$ASSAY" split --out u
ok $? "nothing to split is a usage error"
fails 2 'leave nothing' "$ASSAY" split --out u --instruct c1/instruct.json --instruct-test 0.9 --instruct-val 0.2
ok $? "shares that leave nothing are a usage error"
head -c 2000 c1/instruct.json >cut.json
fails 1 'cut.json' "$ASSAY" split --out u --instruct cut.json && [ ! -e u/manifest.json ]
ok $? "a truncated instruction file is named"
echo '[{"instruction": "a", "output": "b", "split": "dev"}]' >dev.json
fails 1 'dev' "$ASSAY" split --out u --instruct dev.json
ok $? "an unknown split is named"
fails 1 'cannot\|No space\|full\|write' env ASSAY_FAULT=write:1 "$ASSAY" corpus --out v --docs 50 --seed 1 && [ ! -e v/docs.jsonl ] && [ ! -e v/manifest.json ]
ok $? "a failing disk leaves no half corpus"
echo "1..$n"
exit $bad
