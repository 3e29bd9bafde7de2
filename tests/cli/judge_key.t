#!/usr/bin/env bash
# The key of a judge: from the environment only, sent to its server, and in no file, log or message.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'exec 7>&-; rm -rf "$tmp"' EXIT
K=sk-TOPSECRET-0123456789
mkdir "$tmp/made"
cat > "$tmp/items.json" << 'X'
[{"id":"a","instruction":"first question","output":"r"},{"id":"b","instruction":"second question","output":"r"}]
X
# A server that repeats the key wherever it can.
{
    printf 'on POST /v1/chat/completions\nmatch Q: \ntimes 1000\nbody {"model":"m","choices":[{"message":{"content":"one"},"finish_reason":"stop"}]}\n'
    printf 'on POST /v1/chat/completions\nmatch ### Response\ntimes 1000\nbody {"model":"m","choices":[{"message":{"content":"two %s"},"finish_reason":"stop"}]}\n' $K
    printf 'on POST /v1/chat/completions\nmatch json_schema\nmatch Bearer %s\nbody {"model":"m-%s","choices":[{"message":{"content":"{\\"A\\": 5, \\"B\\": 6}"},"finish_reason":"stop"}]}\n' $K $K
    printf 'on POST /v1/chat/completions\nmatch first question\nmatch Bearer %s\ntimes 1000\nbody {"model":"m-%s","choices":[{"message":{"content":"your key is %s"},"finish_reason":"stop"}]}\n' $K $K $K
    printf 'on POST /v1/chat/completions\nmatch Bearer %s\nstatus 400\nheader x-request-id: %s\nbody {"error":{"message":"bad key %s","type":"%s"}}\n' $K $K $K $K
    printf 'on POST /v1/messages\nmatch x-api-key: %s\nmatch anthropic-version: 2023-06-01\nbody {"type":"message","model":"m-%s","content":[{"type":"text","text":"%s"}],"stop_reason":"%s"}\n' $K $K $K $K
    printf 'on POST /api/chat\nstatus 500\nbody {"error":"no"}\n'
} > "$tmp/script"
mkfifo "$tmp/in"
"$BUILD/tests/httpd" "$tmp/script" --log "$tmp/log" --seconds 60 < "$tmp/in" > "$tmp/port" &
exec 7> "$tmp/in"
for _ in $(seq 100); do [ -s "$tmp/port" ] && break; sleep 0.05; done
U=http://127.0.0.1:$(cat "$tmp/port")
export ASSAY_API_KEY=$K OPENAI_API_KEY=$K ANTHROPIC_API_KEY=$K OPENAI_BASE_URL=$U/v1 ANTHROPIC_BASE_URL=$U OLLAMA_HOST=$U
n=0
try() { # command...: its output and files are kept; whatever its status
    n=$((n + 1))
    "$@" > "$tmp/made/out$n" 2> "$tmp/made/err$n" < /dev/null
}
try "$ASSAY" eval --task instruct --model "$U/v1#m" --items "$tmp/items.json" --template plain --out "$tmp/made/r.msgpack"
try "$ASSAY" eval --task instruct --model "$U/v1#m" --items "$tmp/items.json" --template alpaca --out "$tmp/made/s.msgpack"
for J in "$U/v1#m" openai:m anthropic:m ollama:m; do
    for p in single joint pairwise; do
        try "$ASSAY" judge --judge "$J" --items "$tmp/items.json" --responses one="$tmp/made/r.msgpack" two="$tmp/made/s.msgpack" \
            --protocol $p --retries 0 --asks 1 --max-failed 1 --out "$tmp/made/$n"
    done
    try "$ASSAY" doctor --judge "$J"
    try "$ASSAY" judge --panel "$tmp/made/panel$n" --judge "$J" --items "$tmp/items.json" --responses one="$tmp/made/r.msgpack" two="$tmp/made/s.msgpack" --retries 0 --max-failed 1
done
try "$ASSAY" judge --judge "http://me:$K@127.0.0.1:1/v1#m" --items "$tmp/items.json" --responses "$tmp/made/r.msgpack" --out "$tmp/made/x"
ok "the key was sent, in each provider's way" bash -c "grep -q 'Authorization: Bearer $K' '$tmp/log' && grep -q 'x-api-key: $K' '$tmp/log'"
ok "$(wc -l < "$tmp/log") requests left $(find "$tmp/made" -type f | wc -l) files" [ "$(find "$tmp/made" -type f | wc -l)" -gt 40 ]
ok "an answer that repeats it was kept, without it" grep -rqa 'your key is \*\*\*' "$tmp/made"
is "$(grep -rla "$K" "$tmp/made" | head -5)" "" "the key is in no file, log or message"
is "$(grep -rla 'TOPSECRET' "$tmp/made" | head -5)" "" "nor a part of it"
exec 7>&-
done_testing
