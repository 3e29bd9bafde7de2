#!/usr/bin/env bash
# help: the command line itself: help, version, near misses, exit codes, and what a lost stdout does.
set -u
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

run() { # status in $rc, streams in $tmp/out and $tmp/err
    "$ASSAY" "$@" >"$tmp/out" 2>"$tmp/err"
    rc=$?
}
has() { grep -qF -- "$2" "$tmp/$1"; }

run help
is "$rc" 0 "help is exit 0"
ok "help lists commands" has out "usage: assay COMMAND"
is "$(wc -c <"$tmp/err")" 0 "help says nothing on stderr"
run --help
is "$rc" 0 "--help is exit 0"
run
is "$rc" 2 "no command is exit 2"
ok "and shows the commands on stderr" has err "usage: assay COMMAND"
is "$(wc -c <"$tmp/out")" 0 "and nothing on stdout"

run --version
is "$rc" 0 "--version is exit 0"
for word in "assay 0." "commit " "compiler " "PCRE2 " "Unicode " "jansson " "libcurl "; do
    ok "--version says $word" has out "$word"
done

# The names as help prints them: two spaces, the name, two spaces or more, the summary.
"$ASSAY" help | sed -n 's/^  \([a-z]*\( [a-z]*\)\{0,1\}\)  *.*/\1/p' | sed 's/ *$//' >"$tmp/names"
first=
while IFS= read -r line; do
    name=
    for words in 2 1; do # the longest prefix that is a command
        try=$(echo "$line" | cut -d' ' -f1-$words)
        # shellcheck disable=SC2086
        if "$ASSAY" help $try >"$tmp/out" 2>/dev/null && grep -qF "assay $try: " "$tmp/out"; then
            name=$try
            break
        fi
    done
    ok "help describes: $line" test -n "$name"
    [ -n "$name" ] || continue
    : "${first:=$name}"
    cp "$tmp/out" "$tmp/help"
    # shellcheck disable=SC2086
    run $name --help
    ok "$name --help is the same" cmp -s "$tmp/out" "$tmp/help"
    is "$rc" 0 "$name --help is exit 0"
    # shellcheck disable=SC2086
    run $name --no-such-option-at-all
    is "$rc" 2 "$name refuses an unknown option with exit 2"
    ok "$name names the option" has err "$name: unknown option --no-such-option-at-all"
done <"$tmp/names"
ok "there is at least one command" test -n "$first"

run "${first%% *}x" "${first#* }"
is "$rc" 2 "an unknown command is exit 2"
ok "it names what was meant: $(cat "$tmp/err")" grep -qE "did you mean|second word" "$tmp/err"
run qqqqqqqqqq
is "$rc" 2 "a command like no other is exit 2"
ok "it says where the list is" has err "assay: unknown command \"qqqqqqqqqq\"; \`assay help\` lists them"
run help qqqqqqqqqq
is "$rc" 2 "help for it too"
run --what
is "$rc" 2 "an option before the command is exit 2"

"$ASSAY" help >/dev/full 2>"$tmp/err"
is "$?" 1 "a full disk behind stdout is exit 1"
ok "and a sentence" has err "assay: write to stdout: No space left on device"
"$ASSAY" help >&- 2>"$tmp/err"
is "$?" 1 "a closed stdout is exit 1"
ok "and a sentence" has err "assay: write to stdout"
"$ASSAY" nothing >&- 2>"$tmp/err"
is "$?" 2 "a closed stdout that nobody needed is no error of its own"
# A reader that left: no sentence, and the status that the shell gives to SIGPIPE.
{
    sleep 0.2
    "$ASSAY" help 2>"$tmp/err"
    echo $? >"$tmp/rc"
} | true
is "$(cat "$tmp/rc")" 141 "a reader that left ends it as it ends other tools"
ok "and gets no complaint" test ! -s "$tmp/err"

done_testing
