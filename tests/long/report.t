#!/usr/bin/env bash
# The report in headless Chromium: no request, a silent console, phone and desktop, dark and light, print,
# keyboard, contrast, search and filter. Screenshots stay in $BUILD/report for people to look at.
. tests/cli/tap.sh
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if [ -z "$browser" ] || ! command -v python3 > /dev/null; then
    skip "chromium or python3"
    done_testing
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
make="$BUILD/tests/results"
for i in $(seq 20); do
    g=$((i % 4))
    mkdir -p "$tmp/runs/r$i"
    "$make" "$tmp/runs/r$i/result.msgpack" "run-$i" "group-$g" $i n=500 points=1000 judge=1 price=$((8 + i)) \
        batch=$((50 * (g + 1))) effect=0.0$g machine="8xGPU-$g" tokens_s=$((200000 + 20000 * i)) answers=1
done
"$ASSAY" report "$tmp/runs" --title "Twenty runs on four machines" --out "$tmp/r.html"
is $? 0 "a report of 20 runs"
ok "under 1 MB: $(wc -c < "$tmp/r.html")" test "$(wc -c < "$tmp/r.html")" -lt 1000000
ok "it has answers" grep -q 'class="item"' "$tmp/r.html"
# parsers of other people, where they are: an HTML5 parser and Hugging Face's reader of model cards
if python3 -c 'import html5lib' 2> /dev/null; then
    is "$(python3 -c 'import html5lib, sys
p = html5lib.HTMLParser()
p.parse(open(sys.argv[1], "rb").read())
print(len(p.errors))' "$tmp/r.html")" 0 "html5lib finds no error"
fi
if python3 -c 'import huggingface_hub' 2> /dev/null; then
    "$ASSAY" report "$tmp/runs/r1" --card run-1 --out "$tmp/card.md"
    is "$(python3 -c 'import sys
from huggingface_hub import ModelCard
d = ModelCard(open(sys.argv[1]).read()).data
print(d.model_name, sorted(r.metric_type for r in d.eval_results))' "$tmp/card.md")" \
        "run-1 ['acc_exact', 'bits_byte', 'judge_single']" "huggingface_hub reads the card's results"
fi
timeout 240 python3 tests/long/browser.py "$browser" "$tmp/r.html" "$BUILD/report" > "$tmp/checks" 2>&1
is $? 0 "the browser reads it to the end" || sed 's/^/# /' "$tmp/checks"
while read -r line; do
    case $line in
    "ok "*) ok "${line#ok }" true ;;
    "not ok "*) ok "${line#not ok }" false ;;
    esac
done < "$tmp/checks"
ok "all checks were made" test "$(grep -c '^ok\|^not ok' "$tmp/checks")" -ge 22
ok "screenshots are in $BUILD/report" test "$(ls "$BUILD"/report/*.png | wc -l)" -ge 24
done_testing
