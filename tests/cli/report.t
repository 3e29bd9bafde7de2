#!/usr/bin/env bash
# The report without a browser (tests/long/report.t has one): what is in it, what is not, charts alone,
# and the model card.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
make="$BUILD/tests/results"
for s in 1 2 3; do
    "$make" "$tmp/b$s.msgpack" "base-$s" base $s n=300 judge=1 price=10 shift=0.00$s
    "$make" "$tmp/w$s.msgpack" "worse-$s" worse $s n=300 judge=1 price=20 effect=0.05 shift=0.00$s batch=208 \
        notes='a <script>alert(1)</script> & "note"' machine='8xH100 <80>'
done
"$make" "$tmp/o.msgpack" other odd 7 docs=zzz status='killed at step 5' items=1
"$ASSAY" report "$tmp"/[bw]?.msgpack "$tmp/o.msgpack" --out "$tmp/r.html" --title 'Runs & <more>' 2> "$tmp/err"
is $? 0 "a report of seven runs" || cat "$tmp/err"
has() { ok "$1" grep -qF -- "$2" "$tmp/r.html"; }
hasnt() { ok "$1" bash -c '! grep -qE -- "$1" "$2"' _ "$2" "$tmp/r.html"; }
has "it says what can be concluded" 'The recipe worse is worse than base on bits_byte (documents): +0.050'
has "and from how many seeds" 'from 3 against 3 seeds'
is "$(grep -c '>0\.0000<' "$tmp/r.html")" 0 "no p is printed as 0"
ok "but as below what is printed" grep -q '>&lt;0.0001<' "$tmp/r.html"
has "what cannot, and why" 'other is not compared with base-1 on bits_byte (documents): documents differs: zzz against abc'
has "who did not finish" 'other did not finish: killed at step 5'
has "the loss over tokens" 'Training loss over tokens'
has "over time" 'Training loss over time'
has "and over money" 'cost of training, USD'
has "batch size against the metric" 'Batch size against bits_byte'
has "cost against the metric" 'Cost against bits_byte'
has "the options that differ" 'train.batch'
has "an entity for what is markup in a title" 'Runs &amp; &lt;more&gt;'
hasnt "no markup out of a note" '<script>alert'
hasnt "no address of another machine" '(src|href)="(https?:)?//'
hasnt "no import and no font from elsewhere" '@import|@font-face|url\((https?|//)'
hasnt "no NaN and no null is shown" '>(-?nan|inf|null|\(null\))<'
is "$(grep -o '<svg' "$tmp/r.html" | wc -l)" "$(grep -o '<title id' "$tmp/r.html" | wc -l)" "each chart has a title"
is "$(grep -o '<section' "$tmp/r.html" | wc -l)" 8 "eight sections"
balance() { # every element that is opened is closed, in order
    perl -0777 -ne 's/<!DOCTYPE[^>]*>|<(script|style)>.*?<\/\1>//gs; my @s;
        while (/<(\/?)([a-zA-Z0-9]+)((?:"[^"]*"|[^">])*?)(\/?)>/g) { my ($c,$n,$e)=($1,$2,$4);
            next if $e || $n =~ /^(meta|link|input|br)$/;
            if ($c) { my $t = pop @s; die "$t closed by $n\n" if $t ne $n } else { push @s, $n } }
        die "open: @s\n" if @s' "$1"
}
balance "$tmp/r.html" 2> "$tmp/err"
is "$?$(cat "$tmp/err")" 0 "the markup is balanced"

files=()
for i in $(seq 20); do
    "$make" "$tmp/t$i.msgpack" "run-number-$i" "g$((i % 4))" $i n=2000 points=1000 judge=1 price=$i batch=$((i * 20))
    files+=("$tmp/t$i.msgpack")
done
"$ASSAY" report "${files[@]}" --out "$tmp/20.html"
size=$(wc -c < "$tmp/20.html")
ok "20 runs of 2,000 items and 1,000 points: $size bytes, under 1 MB" test "$size" -lt 1000000
"$ASSAY" report "${files[@]}" --chart batch --out "$tmp/c.svg"
ok "many runs: markers say which are alike but for the batch, and the curve is drawn" \
    test "$(grep -oE '>(parabola|alike but for the batch|run-number-[0-9]*)<' "$tmp/c.svg" | sort | uniq -c | tr -d '\n ')" = '1>alikebutforthebatch<1>parabola<'
ok "and said in words, as assay cost says it" grep -qF "$("$ASSAY" cost "${files[@]}" | sed -n 's/^Batch size against.*for it: //p')" "$tmp/c.svg"
ok "cost markers tell who is on the front" grep -q '>on the cost front<' <("$ASSAY" report "${files[@]}" --chart cost --out "$tmp/c.svg"; cat "$tmp/c.svg")
"$make" "$tmp/lone.msgpack" lone lonely 9 n=300 judge=1 effect=0.2
cp "$tmp/b1.msgpack" "$tmp/copy.msgpack"
"$ASSAY" report "$tmp"/b?.msgpack "$tmp/copy.msgpack" "$tmp/lone.msgpack" --seed-sd base --out "$tmp/r.html"
has "a borrowed sd is said in the sentence" 'from 1 against 3 seeds (seed sd borrowed from base).'
has "and a copy is no seed" 'the same training, no seed of its own'
cp "$tmp/b1.msgpack" "$tmp/keep"
"$ASSAY" report "$tmp/b1.msgpack" --out "$tmp/b1.msgpack" 2> "$tmp/err"
is "$? $(grep -c 'would write over the input' "$tmp/err") $(cmp "$tmp/keep" "$tmp/b1.msgpack" && echo same)" "2 1 same" "a report is not written over a result"
(cd "$tmp" && "$ASSAY" report b1.msgpack --card base-1 2> err)
is "$? $(head -1 "$tmp/base-1.card.md") $(ls "$tmp"/report.html 2>/dev/null)" "0 --- " "a card has a name of its own"
"$ASSAY" report "$tmp/b1.msgpack" --card nobody 2> "$tmp/err"
is "$? $(grep -c 'no run is called nobody; there are: base-1$' "$tmp/err")" "2 1" "an unknown run is refused with those there are"
"$ASSAY" report "$tmp/b1.msgpack" --out "$tmp/r.html"
is $? 0 "a report of one run"
has "it says that there is nothing to compare" 'nothing to compare it with'
"$make" "$tmp/e.msgpack" empty e 1 items=0
"$ASSAY" report "$tmp/e.msgpack" --out "$tmp/r.html"
is $? 0 "a report of a run without an evaluation"
has "it says so" 'empty has no evaluation'
"$ASSAY" report "$tmp/b1.msgpack" "$tmp/b2.msgpack" --out "$tmp/nosuch/" 2> "$tmp/err"
ok "a folder is no file to write" test $? -ne 0

# charts alone
for c in loss-tokens loss-time loss-money batch cost values:bits_byte items:bits_byte:worse-1; do
    "$ASSAY" report "$tmp"/[bw]?.msgpack --chart "$c" --out "$tmp/c.svg" && balance "$tmp/c.svg"
    is $? 0 "$c as SVG"
    "$ASSAY" report "$tmp"/[bw]?.msgpack --chart "$c" --zoom 1 --out "$tmp/c.png"
    is $? 0 "$c as PNG"
done
ok "an SVG of its own has its name space" grep -q 'xmlns="http://www.w3.org/2000/svg"' "$tmp/c.svg"
png() { # size and pixels by another program
    python3 - "$1" << 'PY'
import struct, sys, zlib
d = open(sys.argv[1], "rb").read()
assert d[:8] == b"\x89PNG\r\n\x1a\n"
at, data = 8, b""
while at < len(d):
    n, kind = struct.unpack(">I4s", d[at:at + 8])
    body = d[at + 8:at + 8 + n]
    assert zlib.crc32(kind + body) == struct.unpack(">I", d[at + 8 + n:at + 12 + n])[0], kind
    if kind == b"IHDR":
        w, h = struct.unpack(">II", body[:8])
    data += body if kind == b"IDAT" else b""
    at += 12 + n
raw, row, seen = zlib.decompress(data), bytes(3 * w), set()
assert len(raw) == h * (3 * w + 1)
for y in range(h):
    line = raw[y * (3 * w + 1):(y + 1) * (3 * w + 1)]
    assert line[0] == 2
    row = bytes((a + b) & 255 for a, b in zip(line[1:], row))
    seen |= {row[i:i + 3] for i in range(0, 3 * w, 3)}
print(w, any(bytes.fromhex(c) in seen for c in "0060a8 b84a00 00795a a3407a".split()), b"\x1a\x1a\x1a" in seen, b"\xff\xff\xff" in seen)
PY
}
is "$(png "$tmp/c.png")" "420 True True True" "a PNG that another program reads: ground, text and a series' colour"
"$ASSAY" report "$tmp"/b?.msgpack --chart nosuch --out "$tmp/c.svg" 2> "$tmp/err"
is $? 2 "an unknown chart is refused"
ok "with the names there are" grep -q 'loss-tokens, loss-time' "$tmp/err"
"$ASSAY" report "$tmp"/b?.msgpack --chart batch --out "$tmp/c.svg" 2> "$tmp/err"
ok "nothing to draw is said" grep -q 'same batch size' "$tmp/err"
"$ASSAY" report "$tmp"/b?.msgpack --chart cost --out "$tmp/c.gif" 2> "$tmp/err"
is $? 2 "another ending is refused"

# the model card
"$ASSAY" report "$tmp/b1.msgpack" "$tmp/w1.msgpack" --card base-1 --out "$tmp/card.md"
is $? 0 "a model card"
ok "its head is between two lines" test "$(grep -n '^---$' "$tmp/card.md" | head -1 | cut -d: -f1)" = 1
ok "with each metric's value" grep -qE '^      value: [0-9.]+$' "$tmp/card.md"
ok "and a table of them" grep -qE '^\| `bits_byte` \| documents \| [0-9.]+ \| [0-9.]+ to [0-9.]+' "$tmp/card.md"
ok "parameters, tokens, seed are there" test "$(grep -cE '^\| (parameters|tokens|seed|cost, training) \|' "$tmp/card.md")" = 4
ok "nothing is left to do, unknown or empty" bash -c '! grep -qiE "todo|nan|\(null\)|\| +\|$|: *$" <(sed "1,/^---$/d; s/^| | |$//" "$1" | grep -vE "^[a-z -]+:$|results:$|task:$|dataset:$|metrics:$|on:$")' _ "$tmp/card.md"
"$ASSAY" report "$tmp"/[bw]?.msgpack "$tmp/o.msgpack" --card worse-1 --out "$tmp/own.md" 2> "$tmp/err"
is "$(grep -cE 'worse-1|recipe worse' "$tmp/own.md" | sed 's/[1-9][0-9]*/some/') $(sed -n '/^## Compared/,$p' "$tmp/own.md" | grep -cE 'worse-[23]|odd')" "some 0" "among many it speaks of its own run alone" || sed -n '/^## Compared/,$p' "$tmp/own.md" | sed 's/^/# /'
"$ASSAY" report "$tmp/b1.msgpack" --card base-1 --chart cost --out "$tmp/two.svg" 2> "$tmp/err"
is "$? $(ls "$tmp/two.svg" 2> /dev/null)" "2 " "a card and a chart at once are refused"
"$ASSAY" report "$tmp/b1.msgpack" --card nobody --out "$tmp/card.md" 2> "$tmp/err"
is $? 2 "a card of a run that is not there is refused"
done_testing
