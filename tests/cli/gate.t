#!/usr/bin/env bash
# The gate as CI uses it: exit status, sentences, rules from a file, and the two examples in docs/ci.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
make="$BUILD/tests/results"
"$make" "$tmp/base.msgpack" base g 1 > /dev/null
"$make" "$tmp/same.msgpack" same g 2
"$make" "$tmp/bad.msgpack" bad g 3 effect=0.05
"$make" "$tmp/noisy.msgpack" noisy g 8 noise=0.3
"$make" "$tmp/other.msgpack" other g 5 docs=zzz
rule="bits_byte not_worse_by 0.01 at 95%"
gate() { "$ASSAY" gate --baseline "$tmp/base.msgpack" "$@" > "$tmp/out" 2> "$tmp/err"; }

gate --rule "$rule" "$tmp/same.msgpack"
is $? 0 "a candidate within the margin: exit 0"
ok "and the table says pass" grep -q '^pass .*same' "$tmp/out"
ok "stderr is silent" test ! -s "$tmp/err"
gate --rule "$rule" "$tmp/bad.msgpack"
is $? 3 "a worse one: exit 3"
ok "the failing rule is named with its bound" grep -q "^gate: 1 of 1 checks not met; bad: $rule: fail: worse by +0.05.*at least +0.0" "$tmp/err"
gate --rule "$rule" "$tmp/noisy.msgpack"
is $? 3 "undecided: exit 3"
ok "it says how many items would settle it" grep -qE 'undecided: .*about [0-9]+ items \(now 200\) would settle it' "$tmp/err"
gate --undecided=pass --rule "$rule" "$tmp/noisy.msgpack"
is $? 0 "unless --undecided=pass"
gate --undecided=pass --rule "$rule" "$tmp/other.msgpack"
is $? 3 "what cannot be compared never passes"
ok "and is refused by name" grep -q 'documents differs: zzz against abc' "$tmp/err"
gate --rule "bits_byte not_significantly_worse at 95%" "$tmp/noisy.msgpack"
is $? 0 "noise is not significantly worse"
gate --looks 5 --rule "$rule" "$tmp/same.msgpack"
ok "looks divide alpha: 95% becomes 99%" grep -q 'with 99%' "$tmp/out"
gate --rule "$rule" "$tmp/same.msgpack" "$tmp/bad.msgpack" --format json
is $? 3 "one of two fails: exit 3"
is "$(tr -d ' \n' < "$tmp/out" | grep -o '"gate":"[a-z]*"' | tr '\n' ' ')" '"gate":"pass" "gate":"fail" ' "json has both"
gate --rules docs/ci/gate.rules "$tmp/same.msgpack" --format md
is $? 0 "rules from a file"
is "$(grep -c '^| pass' "$tmp/out")" 2 "two of them, as Markdown"
printf 'bits_byte not_worse_by 1 at 95%%\nbits_byte worse\n' > "$tmp/rules"
gate --rules "$tmp/rules" "$tmp/same.msgpack"
is $? 2 "a wrong rule: exit 2"
ok "with file and line" grep -q 'rules, line 2: rule "bits_byte worse"' "$tmp/err"
gate "$tmp/same.msgpack"
is $? 2 "no rule: exit 2"
gate --rule "$rule" "$tmp/nosuch"
is $? 1 "a missing candidate: exit 1"

# ---- over seeds an arm is one recipe
seeds="bits_byte not_worse_by 0.1 at 95% over seeds"
for s in 1 2 3; do
    "$make" "$tmp/a$s.msgpack" "a$s" recipe-a "$s"
    "$make" "$tmp/b$s.msgpack" "b$s" recipe-b "$s"
done
"$ASSAY" gate --baseline "$tmp/a1.msgpack" --baseline "$tmp/a2.msgpack" --baseline "$tmp/a3.msgpack" --rule "$seeds" "$tmp"/b?.msgpack > "$tmp/out" 2> "$tmp/err"
is $? 0 "three seeds against three" || sed 's/^/# /' "$tmp/err"
is "$(sed -n 1p "$tmp/out")" "against a1, a2, a3" "says whom they are held against"
"$ASSAY" gate --baseline "$tmp/base.msgpack" --rule "$seeds" "$tmp"/[ab][12].msgpack "$tmp/a3.msgpack" > "$tmp/out" 2> "$tmp/err"
is "$? $(wc -c < "$tmp/out")" "2 0" "candidates of two groups are not pooled over seeds"
ok "and both groups are named" grep -q 'the candidates are of 2 groups: recipe-a (3 runs), recipe-b (2 runs); ' "$tmp/err" || sed 's/^/# /' "$tmp/err"
"$ASSAY" gate --baseline "$tmp/a1.msgpack" --baseline "$tmp/b2.msgpack" --rule "$seeds" "$tmp"/a[23].msgpack > "$tmp/out" 2> "$tmp/err"
ok "nor are baselines" grep -q 'the baselines are of 2 groups' "$tmp/err"
"$ASSAY" gate --baseline "$tmp/a1.msgpack" --baseline "$tmp/a2.msgpack" --rule "$rule" "$tmp/same.msgpack" > "$tmp/out" 2> "$tmp/err"
ok "over items the first baseline counts, which is said" grep -q '^against a1 alone: over items the first baseline counts' "$tmp/out"
gate --rule "bits not_worse_by 0.01 at 95%" "$tmp/same.msgpack"
is "$? $(grep -c 'bits was not measured; there are: bits_byte/documents, acc_exact/instruct' "$tmp/err")" "3 1" "a metric that nobody has is named with those there are"
gate --rule "$rule" "$tmp/base.msgpack"
is "$? $(grep -c 'held against itself it passes whatever it is' "$tmp/err")" "0 1" "a run that is held against itself is warned of"
"$make" "$tmp/unmeasured.msgpack" unmeasured g 9 items=0
"$ASSAY" gate --undecided=pass --baseline "$tmp/unmeasured.msgpack" --rule "$rule" "$tmp/bad.msgpack" > "$tmp/out" 2> "$tmp/err"
is "$? $(grep -c 'bits_byte was not measured on the baseline' "$tmp/err")" "3 1" "a baseline that was not measured is not replaced by another run"
"$ASSAY" gate --baseline "$tmp/unmeasured.msgpack" --baseline "$tmp/base.msgpack" --rule "$rule" "$tmp/same.msgpack" > "$tmp/out" 2> "$tmp/err"
is $? 3 "not even by the second baseline"
"$ASSAY" help gate > "$tmp/out"
ok "help: an option beside positional words takes one value, and may repeat" grep -qE '^  --baseline TEXT +.*\(may repeat\)$' "$tmp/out"

# ---- the examples, run as their systems would ----
mkdir -p "$tmp/ci/baseline" "$tmp/ci/runs/demo-base-1" "$tmp/ci/build" "$tmp/ci/docs" "$tmp/bin"
cp -r docs/ci "$tmp/ci/docs/"
ln -s "$ASSAY" "$tmp/ci/build/assay"
cp "$tmp/base.msgpack" "$tmp/ci/baseline/result.msgpack"
printf '#!/bin/sh\necho "make $*" >> made\n' > "$tmp/bin/make" # training is another test's
chmod +x "$tmp/bin/make"
unquote() { sed -n 's/^      \([A-Z]*\): \(.*\)/export \1="\2"/p; s/^    \([A-Z]*\): \(.*\)/export \1="\2"/p' "$1"; }
blocks() { # the `run: |` blocks of a workflow, one file each
    awk -v to="$2" '/^ *run: \|/ {n++; f = to "/step" n ".sh"; in_run = 1; next}
        in_run && /^          / {print substr($0, 11) > f; next} {in_run = 0}' "$1"
}
script() { # the items of script: and after_script:
    awk '/^  (script|after_script):/ {on = 1; next} on && /^    - / {print substr($0, 7); next} {on = 0}' "$1"
}
run_github() {
    mkdir -p "$tmp/steps"
    blocks docs/ci/github-actions.yml "$tmp/steps"
    unquote docs/ci/github-actions.yml > "$tmp/env"
    (cd "$tmp/ci" && . "$tmp/env" && export GITHUB_STEP_SUMMARY="$tmp/summary" PATH="$tmp/bin:$PATH" &&
        bash -e "$tmp/steps/step1.sh" && { bash -e "$tmp/steps/step2.sh"; s=$?; bash -e "$tmp/steps/step3.sh"; exit $s; }) > "$tmp/log" 2>&1
}
run_gitlab() {
    script docs/ci/gitlab-ci.yml > "$tmp/lines"
    unquote docs/ci/gitlab-ci.yml > "$tmp/env"
    (cd "$tmp/ci" && . "$tmp/env" && export PATH="$tmp/bin:$PATH" && bash -eo pipefail "$tmp/lines") > "$tmp/log" 2>&1
}
for good in same bad; do
    cp "$tmp/$good.msgpack" "$tmp/ci/runs/demo-base-1/result.msgpack"
    want=$([ $good = same ] && echo 0 || echo 3)
    rm -f "$tmp/summary" "$tmp/ci/report.html" "$tmp/ci/made"
    run_github
    is $? "$want" "GitHub's steps with the $good candidate: exit $want" || sed 's/^/# /' "$tmp/log" | tail
    ok "the summary has the gate" grep -q '^| gate' "$tmp/summary"
    ok "the report is there" test -s "$tmp/ci/report.html"
    is "$(tr '\n' ';' < "$tmp/ci/made")" "make ;make run RUN=demo-base-1;" "the model was built by make"
    run_gitlab
    is $? "$want" "GitLab's script with the $good candidate: exit $want" || sed 's/^/# /' "$tmp/log" | tail
done
done_testing
