# tap.sh: sourced by the shell tests. ok NAME CMD...; is GOT WANT NAME; has FILE PATTERN NAME; skip WHAT;
# done_testing. Tests that train find their shards in chain.sh beside it.
# With $tmp, where they leave out and err: quiet CMD...; fails EXIT WORDS CMD...; says WORDS.
# small_run [KEY=VALUE...] prints a run file of the whole chain that takes seconds.
# $ASSAY is the tool, $BUILD the build folder; tests run in the project's root.
: "${BUILD:=build}" "${ASSAY:=$PWD/$BUILD/assay}"
export LC_ALL=C
tap_n=0
tap_bad=0
result() { # ok? name
    tap_n=$((tap_n + 1))
    if [ "$1" = 0 ]; then
        echo "ok $tap_n - $2"
    else
        echo "not ok $tap_n - $2"
        echo "# at line ${BASH_LINENO[1]} of $0"
        tap_bad=$((tap_bad + 1))
    fi
    return "$1"
}
ok() {
    local name=$1
    shift
    "$@"
    result $(($? != 0)) "$name"
}
is() {
    if [ "$1" = "$2" ]; then
        result 0 "$3"
    else
        result 1 "$3" || true
        printf '# got  "%s"\n# want "%s"\n' "$1" "$2"
        return 1
    fi
}
has() { # shows what the file holds instead
    grep -q -- "$2" "$1"
    result $? "$3" || {
        sed 's/^/# /' "$1" | head -20
        return 1
    }
}
quiet() { # succeeds, and what it said is shown only if not
    "$@" >"$tmp/out" 2>"$tmp/err" || {
        echo "# exit $?: $(cat "$tmp/err")"
        return 1
    }
}
fails() { # exit, words of stderr, command
    local want=$1 words=$2 rc
    shift 2
    "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    rc=$?
    [ $rc = "$want" ] && grep -q -- "$words" "$tmp/err" && return 0
    echo "# exit $rc, want $want; said: $(cat "$tmp/err")"
    return 1
}
says() { # words of the last one's stdout
    grep -q -- "$1" "$tmp/out" || {
        sed 's/^/# /' "$tmp/out"
        return 1
    }
}
small_run() {
    local tokens=8K batch=4 seeds=1 answer=4 lr=6e-4 tune_lr=5e-5
    [ $# = 0 ] || local "$@"
    printf '%s\n' '[data]' 'kind = corpus' 'docs = 400' 'holdout = 0.1' '[vocab]' 'size = 400' \
        '[model]' 'layers = 1' 'heads = 2' 'width = 32' 'context = 128' \
        '[train]' "tokens = $tokens" "batch = $batch" "lr = $lr" \
        '[finetune]' "seeds = $seeds" 'epochs = 1' "lr = $tune_lr" '[eval]' "max_new_tokens = $answer"
}
skip() { # in CI shared data must be there
    tap_n=$((tap_n + 1))
    if [ -n "${CI:-}" ]; then
        echo "not ok $tap_n - $1 is missing, and CI must have it"
        tap_bad=$((tap_bad + 1))
    else
        echo "ok $tap_n # SKIP $1 is not here"
    fi
}
done_testing() {
    echo "1..$tap_n"
    [ "$tap_bad" = 0 ]
    exit
}
