#!/usr/bin/env bash
# assay vocab train, vocab info, encode, decode, from the outside.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
data=${ASSAY_DATA:-../shared/data}

# A text of our own: words of a small alphabet, some repeated, with marks and numbers.
awk 'BEGIN { x = 7; for (d = 0; d < 400; d++) { t = ""; for (w = 0; w < 60; w++) {
    x = (x * 16807) % 2147483647; n = 2 + x % 5; s = "";
    for (k = 0; k < n; k++) { x = (x * 16807) % 2147483647; s = s substr("etaoinshrdlu", 1 + (x % 12) * ((x % 7) % 3 > 0), 1) }
    t = t s (w % 9 == 8 ? ", " : w % 20 == 19 ? ". " : " ") }
    printf "{\"id\":\"d%d\",\"text\":\"%s it%ss %d\\n\"}\n", d, t, "\x27", d } }' > "$tmp/docs.jsonl"

train() { "$ASSAY" vocab train --in "$1" --size "$2" --out "$3" "${@:4}" 2> "$tmp/err"; }
ok "vocab train writes a vocabulary" train "$tmp/docs.jsonl" 400 "$tmp/v.tiktoken"
is "$(wc -l < "$tmp/v.tiktoken")" 399 "of --size tokens, end-of-text included, so one line less"
is "$("$ASSAY" vocab info "$tmp/v.tiktoken" | grep -c '^size  *400 ids: 399 ordinary tokens, 1 special$')" 1 "vocab info says so"
"$ASSAY" vocab info "$tmp/v.tiktoken" | grep -q '^special *399 <|endoftext|>$'
ok "and that end-of-text is the id behind the last" [ $? = 0 ]
touch -d 2001-01-01 "$tmp/v.tiktoken"
train "$tmp/docs.jsonl" 400 "$tmp/v.tiktoken"
ok "a second call does nothing" [ "$(stat -c %Y "$tmp/v.tiktoken")" -lt 1000000000 ]
ok "and says so" grep -q 'up to date' "$tmp/err"
sort -r "$tmp/docs.jsonl" > "$tmp/backwards.jsonl"
train "$tmp/backwards.jsonl" 400 "$tmp/w.tiktoken"
ok "the order of documents does not matter" cmp "$tmp/v.tiktoken" "$tmp/w.tiktoken"
split -n l/3 "$tmp/docs.jsonl" "$tmp/part." --additional-suffix=.jsonl
"$ASSAY" vocab train --in "$tmp/part.ac.jsonl" --in "$tmp/part.aa.jsonl" --in "$tmp/part.ab.jsonl" --size 400 --out "$tmp/p.tiktoken" 2> /dev/null
ok "nor do the files they lie in" cmp "$tmp/v.tiktoken" "$tmp/p.tiktoken"
train "$tmp/docs.jsonl" 400 "$tmp/tokenizer.json"
is "$("$ASSAY" vocab info "$tmp/tokenizer.json" | grep hash)" "$("$ASSAY" vocab info "$tmp/v.tiktoken" | grep hash)" \
    "as tokenizer.json it is the same vocabulary"
train "$tmp/docs.jsonl" 400 "$tmp/l.tiktoken" --pattern llama3 --eot '<end>'
"$ASSAY" vocab info "$tmp/l.tiktoken" > "$tmp/info"
ok "pattern and end-of-text are read back from the manifest" grep -q '^pattern *llama3$' "$tmp/info"
ok "which of the specials it is as well" grep -q '^eot *399$' "$tmp/info"
ok "with the text that was given" grep -q '^special *399 <end>$' "$tmp/info"

# Text to ids and back.
printf 'one two\nthe end\0x\n' > "$tmp/text"
"$ASSAY" encode --vocab "$tmp/v.tiktoken" "$tmp/text" > "$tmp/ids"
is "$(wc -l < "$tmp/ids")" 1 "encode: a file is one document, one line"
"$ASSAY" decode --vocab "$tmp/v.tiktoken" "$tmp/ids" | cmp - "$tmp/text"
ok "decode gives its bytes back, NUL included" [ $? = 0 ]
"$ASSAY" encode --vocab "$tmp/v.tiktoken" --lines < "$tmp/text" > "$tmp/ids"
is "$(wc -l < "$tmp/ids")" 2 "--lines: each line is a document, from standard input"
"$ASSAY" decode --vocab "$tmp/v.tiktoken" --lines "$tmp/ids" | cmp - "$tmp/text"
ok "and decode --lines gives the lines back" [ $? = 0 ]
is "$(printf 'a<|endoftext|>b' | "$ASSAY" encode --vocab "$tmp/v.tiktoken" | tr ' ' '\n' | grep -cx 399)" 0 \
    "special text is plain text by default"
is "$(printf 'a<|endoftext|>b' | "$ASSAY" encode --vocab "$tmp/v.tiktoken" --special allow)" "97 399 98" "allow: it is the token"
printf 'a<|endoftext|>b' > "$tmp/special"
ok "error: it is refused with its place" fails 1 'special: special token <|endoftext|> at byte 1' \
    "$ASSAY" encode --vocab "$tmp/v.tiktoken" --special error "$tmp/special"
printf 'a\377b' > "$tmp/bad"
is "$("$ASSAY" encode --vocab "$tmp/v.tiktoken" --bad-utf8 raw "$tmp/bad" 2> "$tmp/err")" "97 255 98" "--bad-utf8 raw: bytes stay"
is "$("$ASSAY" encode --vocab "$tmp/v.tiktoken" "$tmp/bad" 2> "$tmp/err")" "97 239 191 189 98" "replace: U+FFFD"
ok "and the documents are counted" grep -q '1 of 1 documents had bytes that are no UTF-8' "$tmp/err"
ok "error: refused with file and byte" fails 1 'bad: byte 1 is not UTF-8' \
    "$ASSAY" encode --vocab "$tmp/v.tiktoken" --bad-utf8 error "$tmp/bad"
gzip -c "$tmp/text" > "$tmp/text.gz"
is "$("$ASSAY" encode --vocab "$tmp/v.tiktoken" "$tmp/text.gz")" "$("$ASSAY" encode --vocab "$tmp/v.tiktoken" "$tmp/text")" \
    "a compressed text is the same text"

# Bad input.
printf '1 2\n3 zwei\n' > "$tmp/x"
ok "decode: what is no id is named with file and line" fails 1 'x:2: "zwei" is not an id' "$ASSAY" decode --vocab "$tmp/v.tiktoken" "$tmp/x"
printf '1 2\n3 400\n' > "$tmp/x"
ok "decode: an id out of range as well" fails 1 'x:2: id 400 (the 2. of them) stands for nothing in a vocabulary of 400' \
    "$ASSAY" decode --vocab "$tmp/v.tiktoken" "$tmp/x"
printf '99999999999999999999\n' > "$tmp/x"
ok "decode: and one beyond 32 bits" fails 1 'x:1: "99999999999999999999" is not an id' "$ASSAY" decode --vocab "$tmp/v.tiktoken" "$tmp/x"
ok "a missing vocabulary" fails 1 'nowhere.tiktoken' "$ASSAY" encode --vocab "$tmp/nowhere.tiktoken" "$tmp/text"
mkdir "$tmp/folder"
ok "a folder without one" fails 1 'no tokenizer.json, vocab.bpe, merges.txt or .tiktoken in this folder' \
    "$ASSAY" encode --vocab "$tmp/folder" "$tmp/text"
ok "a folder as text" fails 1 'folder' "$ASSAY" encode --vocab "$tmp/v.tiktoken" "$tmp/folder"
ok "a missing text" fails 1 'nowhere' "$ASSAY" encode --vocab "$tmp/v.tiktoken" "$tmp/nowhere"
head -c 2000 "$tmp/v.tiktoken" > "$tmp/v2.tiktoken"
ok "a cut .tiktoken without a manifest" fails 1 'v2.tiktoken' "$ASSAY" vocab info "$tmp/v2.tiktoken"
head -300 "$tmp/l.tiktoken" > "$tmp/cut" && cp "$tmp/cut" "$tmp/l.tiktoken"
ok "one cut at a line is noticed by its manifest" fails 1 'has 300 tokens, but its manifest says 399' "$ASSAY" vocab info "$tmp/l.tiktoken"
ok "an unknown pattern is a usage error that lists them" fails 2 'there are gpt2, cl100k, o200k, llama3, qwen2' \
    "$ASSAY" vocab train --in "$tmp/docs.jsonl" --size 300 --out "$tmp/n.tiktoken" --pattern gpt9
ok "so is another extension" fails 2 'ends in .tiktoken or .json' "$ASSAY" vocab train --in "$tmp/docs.jsonl" --size 300 --out "$tmp/n.txt"
ok "and a size without room for the bytes" fails 2 'size' "$ASSAY" vocab train --in "$tmp/docs.jsonl" --size 256 --out "$tmp/n.tiktoken"
ok "a text that has not so many tokens to give says how many" fails 1 'the text has only' \
    "$ASSAY" vocab train --in "$tmp/docs.jsonl" --size 100000 --out "$tmp/n.tiktoken"
ok "a missing input" fails 1 'nowhere.jsonl' "$ASSAY" vocab train --in "$tmp/nowhere.jsonl" --size 300 --out "$tmp/n.tiktoken"
ok "a disk that is full" fails 1 'v.tiktoken\|n.tiktoken' env ASSAY_FAULT=write:1 "$ASSAY" vocab train --in "$tmp/docs.jsonl" --size 300 --out "$tmp/n.tiktoken"
ok "none of these left a file" [ -z "$(find "$tmp" -name '*n.t*')" ]
if [ -e /dev/full ]; then
    "$ASSAY" encode --vocab "$tmp/v.tiktoken" "$tmp/text" > /dev/full 2> "$tmp/err"
    is $? 1 "ids that cannot be written are an error"
fi

# Other people's vocabularies and text.
if [ -e "$data/tokenizer/vocab.bpe" ] && [ -e "$data/tokenizer/war-and-peace.txt" ]; then
    is "$(printf 'Hello, World!' | "$ASSAY" encode --vocab "$data/tokenizer/encoder.json")" "15496 11 2159 0" "GPT-2: ids as everybody has them"
    "$ASSAY" encode --vocab "$data/tokenizer" "$data/tokenizer/war-and-peace.txt" > "$tmp/ids"
    is "$(wc -w < "$tmp/ids")" 792623 "War and Peace has 792,623 tokens"
    "$ASSAY" decode --vocab "$data/tokenizer/r50k_base.tiktoken" "$tmp/ids" | cmp - "$data/tokenizer/war-and-peace.txt"
    ok "and comes back byte for byte, by the other file of that vocabulary" [ $? = 0 ]
else
    skip "data/tokenizer"
fi
done_testing
