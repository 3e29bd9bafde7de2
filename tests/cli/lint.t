#!/usr/bin/env bash
# lint: each rule of tests/lint.sh finds what is planted in a small tree, and only there.
set -u
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

lint() { (unset CI; bash tests/lint.sh "$tmp/tree") >"$tmp/out" 2>&1; }
fresh() {
    rm -rf "$tmp/tree"
    mkdir -p "$tmp/tree/base" "$tmp/tree/pipelines" "$tmp/tree/tests"
    cp .clang-format "$tmp/tree/"
    cat >"$tmp/tree/base/a.h" <<'C'
/* a: strcpy( in a remark, "exit(1)" too. */
#ifndef BASE_A_H
#define BASE_A_H

int a(int x);

#endif
C
    cat >"$tmp/tree/base/a.c" <<'C'
#include "base/a.h"

int a(int x)
{
    return x + (int)sizeof "strtok(a) exit(1)"; /* sprintf(x) */
}
C
}
plant() { # name, file, line, what lint says
    fresh
    printf '%s\n' "$3" >>"$tmp/tree/$2"
    lint
    local rc=$?
    ok "$1: exit 1" test "$rc" = 1
    ok "$1: file, line and what" grep -qE "^$2:[0-9]+: .*$4" "$tmp/out" || sed 's/^/# /' "$tmp/out"
}

fresh
lint
is "$?" 0 "a clean tree passes, banned words in remarks and strings included" || sed 's/^/# /' "$tmp/out"
for f in sprintf strcpy strcat strtok atoi atof gets rand; do
    plant "$f" base/a.c "int b = $f(1);" "$f\\(\\) is banned"
done
plant "exit" base/a.c "int b = exit(1);" "exit\\(\\) outside"
plant "long file" base/a.c "$(yes ';' | head -601)" "lines, at most 600"
plant "long test" tests/a.c "$(yes ';' | head -701)" "lines, at most 700"
plant "trailing space" base/a.c "int b; " "white space at the end"
plant "tab" base/a.c "	int b;" "a tab"
plant "hidden return" base/a.c "$(printf '#define B(x) \\\n    return x')" "hides a return"
plant "ifdef" base/a.c "$(printf '#ifdef B\n#endif')" "#ifdef outside of a registry"
plant "no guard" base/b.h "int b;" "without a guard"
plant "CRLF" base/a.c "$(printf 'int b;\r')" "white space at the end"
plant "broken script" tests/x.sh "$(printf '#!/bin/bash\nif true; then')" "syntax error"
for f in tests/cli/x.t tests/long/x.t; do
    fresh
    mkdir -p "$tmp/tree/${f%/*}"
    printf '#!/bin/bash\ntrue\n' >"$tmp/tree/$f"
    lint
    is "$? $(grep -c "^$f:1: is not executable" "$tmp/out")" "1 1" "$f without the exec bit is found"
    chmod +x "$tmp/tree/$f"
    lint
    is "$?" 0 "and with it is not" || sed 's/^/# /' "$tmp/out"
done
fresh
printf 'int b;' >>"$tmp/tree/base/a.c"
lint
ok "a missing line end is found" grep -q "^base/a.c:[0-9]*: no line end" "$tmp/out"
fresh
printf '#include <stdlib.h>\n\nint main(void)\n{\n    exit(1);\n}\n' | tee "$tmp/tree/pipelines/main.c" >"$tmp/tree/tests/t.c"
lint
is "$?" 0 "main.c and tests may exit" || sed 's/^/# /' "$tmp/out"
if command -v clang-format >/dev/null 2>&1 && clang-format --version | grep -q 'version 14'; then
    plant "formatting" base/a.c "int   b;" "clang-format"
else
    skip "clang-format 14"
fi
done_testing
