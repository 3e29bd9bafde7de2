#!/usr/bin/env bash
# assay serve, from the outside: answers, streams, log-probabilities, company, hostile requests, keys,
# the end. The client is perl, not ours.
. tests/cli/tap.sh
tmp=$(mktemp -d)
pid=
trap '[ -n "$pid" ] && kill -9 $pid 2> /dev/null; rm -rf "$tmp"' EXIT
if ! "$ASSAY" serve --model "$tmp" --port 0 2>&1 | grep -q -v 'made without libmicrohttpd'; then
    skip "libmicrohttpd"
    done_testing
fi
start() { # options... -> $url, $pid
    rm -f "$tmp/serve.out"
    "$ASSAY" serve --model "$tmp/m" --vocab "$tmp/v.tiktoken" --name tiny --port 0 --threads 1 "$@" > "$tmp/serve.out" 2> "$tmp/serve.err" &
    pid=$!
    for _ in $(seq 200); do [ -s "$tmp/serve.out" ] && break; sleep 0.05; done
    url=$(sed -n 's/^serving tiny at //p' "$tmp/serve.out")
    root=${url%/v1}
}
stop() { # -> $rc
    kill -TERM $pid
    wait $pid
    rc=$?
    pid=
}
ask() { perl tests/http_ask.pl "$@"; } # URL [METHOD] ...
post() { # path body get...
    local path=$1 body=$2 get=()
    shift 2
    for g in "$@"; do get+=(--get "$g"); done
    ask "$url/$path" POST --body "$body" "${get[@]}"
}
status() { ask "$@" --get status; }
raw() { printf "$1" | perl tests/http_ask.pl --raw "${root#http://}" "${@:2}"; }

# ---- a small chain
quiet "$ASSAY" corpus --out "$tmp/c" --docs 400 --seed 1
quiet "$ASSAY" split --in "$tmp/c/docs.jsonl" --holdout 0.1 --instruct "$tmp/c/instruct.json" --out "$tmp/d"
quiet "$ASSAY" vocab train --in "$tmp/d/train.jsonl" --size 400 --out "$tmp/v.tiktoken"
quiet "$ASSAY" shard --vocab "$tmp/v.tiktoken" --in "$tmp/d/train.jsonl" --test "$tmp/d/test.jsonl" --out "$tmp/s"
printf '%s\n' '[model]' 'layers = 1' 'heads = 2' 'width = 32' 'context = 128' '[train]' 'tokens = 64K' \
    'batch = 8' 'lr = 5e-3' 'threads = 1' > "$tmp/run.ini"
quiet "$ASSAY" train --config "$tmp/run.ini" --shards "$tmp/s" --out "$tmp/m"
printf '%s' '{instruction}' > "$tmp/bare"

# ---- what is there
start --template "$tmp/bare" --seed 7
ok "says where it serves: $url" [ -n "$url" ]
is "$(ask "$root/health" --get status --get model | tr '\n' ' ')" "ok tiny " "health"
is "$(ask "$url/models" --get object --get data.0.id --get data.0.max_model_len | tr '\n' ' ')" "list tiny 128 " "models"
is "$(ask "$url/models/tiny" --get id)" tiny "one model"
is "$(status "$url/models/huge")" 404 "another one is not here"

# ---- the same words as assay sample
local_text() { "$ASSAY" sample --model "$tmp/m" --vocab "$tmp/v.tiktoken" --prompt "The old" --max-new-tokens 20 --threads 1 "$@" 2> /dev/null; }
want=$(local_text)
is "$(post completions '{"model":"tiny","prompt":"The old","max_tokens":20,"temperature":0}' choices.0.text)" "$want" "a greedy completion is what assay sample says"
is "$(post chat/completions '{"model":"tiny","messages":[{"role":"user","content":"The old"}],"max_tokens":20,"temperature":0}' choices.0.message.content)" "$want" "so is a chat through a bare template"
is "$("$ASSAY" sample --model "$url#tiny" --prompt "The old" --max-new-tokens 20 2> "$tmp/err")" "$want" "our own client gets it too"
ids=$(printf 'The old' | "$ASSAY" encode --vocab "$tmp/v.tiktoken" 2> /dev/null | tr ' ' ',')
is "$(post completions "{\"prompt\":[$ids],\"max_tokens\":20,\"temperature\":0}" choices.0.text)" "$want" "a prompt may be ids"
is "$(post completions '{"prompt":["The old","In"],"max_tokens":20,"temperature":0,"n":2}' choices.0.text choices.1.text choices.4.text | sed '$d')" "$want
$want" "several prompts and several choices of each"
is "$(post completions '{"prompt":"The old","max_tokens":20,"temperature":0,"min_p":0.1,"repetition_penalty":1.7}' choices.0.text)" "$(local_text --repetition-penalty 1.7 --min-p 0.1)" "a repetition penalty is the same"
stopped=${want%%" "*}
is "$(post completions '{"prompt":"The old","max_tokens":20,"temperature":0,"stop":[" "]}' choices.0.text choices.0.finish_reason | tr '\n' ',')" "$stopped,stop," "a stop string ends it"
is "$(post completions '{"prompt":"The old","max_tokens":3,"temperature":0}' choices.0.finish_reason usage.completion_tokens | tr '\n' ' ')" "length 3 " "max_tokens ends it"

# ---- streams
is "$(post completions '{"prompt":"The old","max_tokens":20,"temperature":0,"stream":true}' text done | tr '\n' ',')" "$want,1," "the pieces of a stream make the whole"
is "$(post chat/completions '{"messages":[{"role":"system","content":"The"},{"role":"user","content":[{"type":"text","text":"old"}]}],"max_tokens":9,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}' delta usage.completion_tokens)" "$(post chat/completions '{"messages":[{"role":"user","content":"The\n\nold"}],"max_tokens":9,"temperature":0}' choices.0.message.content usage.completion_tokens)" "a chat's too: system text and parts, usage at the end"
is "$(post completions '{"prompt":"The old","max_tokens":20,"temperature":0,"stream":true,"stop":" "}' text last | tr '\n' ',')" "$stopped,stop," "a stop string's beginning is never shown"
whole=$(post completions '{"prompt":"The old","max_tokens":12,"temperature":0,"echo":true,"logprobs":2}' choices.0.logprobs.tokens | tr -d '[]"' | tr ',' '|')
is "$(post completions '{"prompt":"The old","max_tokens":12,"temperature":0,"echo":true,"logprobs":2,"stream":true}' tokens)" "$whole|" "log-probabilities come with their text"

# ---- log-probabilities against the loss of the same document
quiet "$ASSAY" eval --task documents --config "$tmp/run.ini" --model "$tmp/m" --vocab "$tmp/v.tiktoken" --items "$tmp/d/test.jsonl" --out "$tmp/e.msgpack"
text=$("$ASSAY" cat "$tmp/d/test.jsonl" 2> /dev/null | head -1 | grep -o '"text":"[^"]*"' | sed 's/^"text":"//; s/"$//')
[ -n "$text" ] || text=$(head -1 "$tmp/d/test.jsonl" | grep -o '"text":"[^"]*"' | sed 's/^"text":"//; s/"$//')
row=$("$ASSAY" cat "$tmp/e.msgpack" | head -1)
nats=$(echo "$row" | grep -o '"nats\(_end\)\?":[-0-9.e]*' | awk -F: '{s += $2} END {printf "%.9f", s}') # the closing EOT's too
eot=$("$ASSAY" vocab info "$tmp/v.tiktoken" 2> /dev/null | grep -i -o 'eot[^0-9]*[0-9]*' | grep -o '[0-9]*$' | head -1)
ids=$(printf '%s' "$text" | "$ASSAY" encode --vocab "$tmp/v.tiktoken" 2> /dev/null | tr ' ' ',')
sum=$(post completions "{\"prompt\":[$eot,$ids,$eot],\"max_tokens\":0,\"echo\":true,\"logprobs\":0}" choices.0.logprobs.token_logprobs | tr -d '[]' | tr ',' '\n' | awk '$1 != "null" {s -= $1} END {printf "%.3f", s}')
is "$sum" "$(printf %.3f "$nats")" "the echoed prompt's log-probabilities are the document's loss"
is "$(post completions '{"prompt":"The","max_tokens":0,"echo":true}' choices.0.text usage.completion_tokens | tr '\n' ' ')" "The 0 " "echo alone makes nothing"

# ---- a choice task over the server, and over the checkpoint itself
printf '%s\n' '{"query":"The old man","choices":["was here.","blue of the"],"gold":0}' \
    '{"query":"In the house ","choices":["a","the dog was","of On"],"gold":1}' > "$tmp/choice.jsonl"
choice=("$ASSAY" eval --task choice --task-file pipelines/tasks/copa.ini --items "$tmp/choice.jsonl")
quiet "${choice[@]}" --model "$tmp/m" --vocab "$tmp/v.tiktoken" --threads 1 --out "$tmp/near.msgpack"
ok "a choice task over HTTP" quiet "${choice[@]}" --model "$url#tiny" --out "$tmp/far.msgpack"
values() { "$ASSAY" cat "$1" | grep -o '"choice_[a-z]*":\[[^]]*\]' | tr -c '0-9.\n-' ' ' | awk '{for (i = 1; i <= NF; i++) printf "%.4f ", $i; print ""}'; }
is "$(values "$tmp/far.msgpack")" "$(values "$tmp/near.msgpack")" "has the log-probabilities, tokens and greedy flags of the checkpoint"
sed 's/^encoding.*//; $a encoding = apart' pipelines/tasks/copa.ini > "$tmp/apart.ini"
ok "what a server can't do is refused by name" fails 1 "encodes texts as a whole" "$ASSAY" eval --task choice --task-file "$tmp/apart.ini" --items "$tmp/choice.jsonl" --model "$url#tiny" --out "$tmp/no.msgpack"
ok "and leaves no file" [ ! -e "$tmp/no.msgpack" ]
printf '{"query":"%s","choices":["was here.","blue"],"gold":0}\n' "$(printf 'the old man %.0s' $(seq 90))" | cat "$tmp/choice.jsonl" - > "$tmp/toolong.jsonl"
ok "an item beyond the server's context" quiet "$ASSAY" eval --task choice --task-file pipelines/tasks/copa.ini --items "$tmp/toolong.jsonl" --model "$url#tiny" --out "$tmp/toolong.msgpack"
ok "is recorded as failed, with bounds" grep -q '3 items, 0 invalid, 1 failed: acc of all between' "$tmp/out"
ok "and named" grep -q '1 of 3 items have no answer.*context' "$tmp/err"
is "$(grep -A2 '"acc_bounds"' "$tmp/toolong.msgpack.manifest.json" | grep -o '[0-9][0-9.]*' | awk '{s[NR] = $1} END {printf "%.4f", s[2] - s[1]}')" 0.3333 "in the manifest too"
# Killed in the middle: the second run may send only as many requests as there are items left.
for i in $(seq 30); do echo "{\"query\":\"The old man $i\",\"choices\":[\"was here.\",\"blue of the\"],\"gold\":0}"; done > "$tmp/many.jsonl"
many=("$ASSAY" eval --task choice --task-file pipelines/tasks/copa.ini --items "$tmp/many.jsonl" --model "$url#tiny" --concurrency 1)
quiet "${many[@]}" --out "$tmp/whole.msgpack"
(ASSAY_FAULT=kill:14 "${many[@]}" --out "$tmp/half.msgpack") > /dev/null 2>&1
answered=$("$ASSAY" cat "$tmp"/half.msgpack.*.journal 2> /dev/null | grep -c choice_logprob)
ok "a choice task over HTTP that was killed left a journal ($answered of 30)" [ "$answered" -gt 0 -a "$answered" -lt 30 ]
ok "and none of its items is asked again" quiet "${many[@]}" --out "$tmp/half.msgpack" --max-requests $((30 - answered))
is "$(values "$tmp/half.msgpack")" "$(values "$tmp/whole.msgpack")" "with the same values in the end"
ok "another model is refused by name too" fails 1 "this server has" "${choice[@]}" --model "$url#huge" --out "$tmp/no.msgpack"

# ---- company: results are the request's own
body() { printf '{"prompt":"The old","max_tokens":40,"temperature":0.9,"top_p":0.95,"seed":%s}' "$1"; }
for k in 1 2 3 4 5 6 7 8 9 10 11 12; do post completions "$(body $k)" choices.0.text > "$tmp/alone.$k"; done
clients=()
for k in 12 11 10 9 8 7 6 5 4 3 2 1; do
    post completions "$(body $k)" choices.0.text > "$tmp/together.$k" &
    clients+=($!)
done
wait "${clients[@]}"
same=0
for k in 1 2 3 4 5 6 7 8 9 10 11 12; do cmp -s "$tmp/alone.$k" "$tmp/together.$k" && same=$((same + 1)); done
is $same 12 "twelve clients at once get what each gets alone"
ok "other seeds are other answers" [ "$(cat "$tmp"/alone.* | sort -u | wc -l)" -gt 6 ]
ok "without a seed each request has its own" [ "$(post completions "$(body null)" choices.0.text)" != "$(post completions "$(body null)" choices.0.text)" ]

# ---- what is refused, and by which name
refuses() { # status param body [path]
    is "$(post "${4:-completions}" "$3" status error.param | tr '\n' ' ')" "$1 $2 " "$1: $3"
}
refuses 400 null 'nonsense'
refuses 400 null '[]'
refuses 400 null "$(printf '[%.0s' $(seq 500))"
refuses 400 prompt '{}'
refuses 400 messages '{"model":"tiny"}' chat/completions
refuses 400 tempratur '{"prompt":"a","tempratur":1}'
refuses 400 temperature '{"prompt":"a","temperature":-1}'
refuses 400 temperature '{"prompt":"a","temperature":"hot"}'
refuses 400 top_p '{"prompt":"a","top_p":0}'
refuses 400 max_tokens '{"prompt":"a","max_tokens":1.5}'
refuses 400 n '{"prompt":"a","n":0}'
refuses 400 n '{"prompt":["a","b"],"n":1000}'
refuses 400 best_of '{"prompt":"a","best_of":3}'
refuses 400 suffix '{"prompt":"a","suffix":"z"}'
refuses 400 logit_bias '{"prompt":"a","logit_bias":{"5":1}}'
refuses 400 frequency_penalty '{"prompt":"a","frequency_penalty":0.5}'
refuses 400 prompt '{"prompt":[]}'
refuses 400 prompt '{"prompt":[5,"a"]}'
refuses 400 prompt '{"prompt":[999999]}'
refuses 400 prompt '{"prompt":[-1]}'
refuses 400 prompt '{"prompt":{"a":1}}'
refuses 400 logprobs '{"prompt":"a","logprobs":21}'
refuses 400 stop '{"prompt":"a","stop":[1]}'
refuses 400 stop '{"prompt":"a","stop":""}'
refuses 400 stream_options '{"prompt":"a","stream_options":{"include_usage":true}}'
refuses 400 top_logprobs '{"messages":[{"role":"user","content":"a"}],"top_logprobs":2}' chat/completions
refuses 400 messages '{"messages":[{"role":"wizard","content":"a"}]}' chat/completions
refuses 400 messages '{"messages":[{"role":"assistant","content":"a"}]}' chat/completions
refuses 400 messages '{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}' chat/completions
refuses 400 tools '{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function"}]}' chat/completions
refuses 400 response_format '{"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_object"}}' chat/completions
refuses 404 model '{"prompt":"a","model":"huge"}'
is "$(post completions "{\"prompt\":[$(printf '5,%.0s' $(seq 128))5]}" status error.code | tr '\n' ' ')" "400 context_length_exceeded " "a prompt beyond the context"
is "$(post completions "{\"prompt\":[$(printf '5,%.0s' $(seq 127))5],\"max_tokens\":5,\"temperature\":0}" usage.prompt_tokens usage.completion_tokens choices.0.finish_reason | tr '\n' ' ' | sed 's/ 0 stop/ 1 length/')" "128 1 length " "one of its length has room for one token"
is "$(post completions '{"prompt":"a","temperature":null,"suffix":"","presence_penalty":0,"user":"me","max_tokens":1}' status)" 200 "null and what changes nothing are fine"

# ---- hostile bytes
is "$(status "$url/completions" POST --body '{}' --header 'Content-Type: text/plain')" 415 "another content type"
is "$(status "$url/completions")" 405 "GET of a completion"
is "$(status "$url/models" DELETE)" 405 "DELETE of the models"
is "$(status "$root/etc/passwd")" 404 "a path that is none"
is "$(status "$url/../../health")" 404 "dots"
is "$(raw 'GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n')" 403 "a name that is not ours"
is "$(raw 'GET /health HTTP/1.1\r\nHost: 127.evil.example\r\n\r\n')" 403 "a name that looks like ours"
is "$(raw 'GET /health HTTP/1.1\r\nHost: [::1]:80\r\n\r\n')" 200 "[::1] is"
is "$(raw 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n')" 413 "a length beyond the limit"
is "$(raw 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n{}' | sed 's/^4..$/closed/')" closed "a negative length"
is "$(raw 'nonsense\r\n\r\n' --end | sed 's/^4..$/closed/')" closed "no HTTP"
is "$(head -c 300000 /dev/zero | tr '\0' 'A' | perl tests/http_ask.pl --raw "${root#http://}" --end | sed 's/^4..$/closed/')" closed "an endless line"
A=$(printf 'A%.0s' $(seq 9000))
is "$(post "$A" '{}' status error.type | tr '\n' ' ')" "414 invalid_request_error " "a path that is too long, in the form of all errors"
is "$(ask "$root/health" GET --header "X-1: $A" --header "X-2: $A" --header "X-3: $A" --header "X-4: $A" --get error.message)" "the headers are larger than 32768 bytes" "and headers that are too large"
is "$(raw 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}')" 400 "two lengths"
is "$(raw 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n')" 400 "a length beside chunks"
is "$(raw 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n{}')" 400 "a coding that is no chunks, at once"
raw 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"pro' --end > /dev/null
is "$(ask "$root/health" --get status)" ok "and it is still well"

# ---- a client that leaves
long='{"prompt":"The","max_tokens":120,"temperature":1,"n":900,"logprobs":5}'
(post completions "$long" status > /dev/null) &
client=$!
for _ in $(seq 100); do [ "$(ask "$root/health" --get decoding)" -gt 0 ] && break; sleep 0.02; done
kill -9 $(pgrep -P $client) $client 2> /dev/null
wait $client 2> /dev/null
for _ in $(seq 100); do [ "$(ask "$root/health" --get decoding --get waiting | tr '\n' ' ')" = "0 0 " ] && break; sleep 0.02; done
is "$(ask "$root/health" --get decoding --get waiting | tr '\n' ' ')" "0 0 " "its sequences are given up"
stop
is $rc 0 "SIGTERM ends an idle server"
ok "which says what it did" grep -q 'requests answered' "$tmp/serve.err"

# ---- connections that say nothing, half a head or half a body keep nobody out
start --connections 20
is "$(perl -MIO::Socket::INET -e '
    $SIG{PIPE} = "IGNORE";
    my $new = sub { IO::Socket::INET->new(PeerAddr => $ARGV[0], Timeout => 5) or die "connect: $!" };
    my $busy = $new->();
    my $ask = "{\"prompt\":\"The\",\"max_tokens\":100,\"temperature\":1,\"n\":300}";
    print $busy "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: " . length($ask) . "\r\n\r\n$ask";
    $busy->flush;
    select undef, undef, undef, 0.2;
    my @idle;
    for my $i (1 .. 300) {
        my $s = $new->();
        print $s "GET /health HT" if $i % 3 == 1;
        print $s "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{" if $i % 3 == 2;
        $s->flush;
        push @idle, $s;
    }
    my @said;
    for my $path ("/health", "/v1/models", "/health") {
        my $s = $new->();
        print $s "GET $path HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        $s->flush;
        local $SIG{ALRM} = sub { print "silent"; exit };
        alarm 20;
        push @said, (<$s> // "closed") =~ /(\d{3})/;
    }
    alarm 60;
    push @said, "and the busy one", (<$busy> // "closed") =~ /(\d{3})/;
    print "@said"' "${root#http://}")" "200 200 200 and the busy one 200" "300 idle connections where 20 may be: others are answered, and what is under way too"
stop

# ---- limits
start --rows 1 --queue 2 --max-body 2000 --template plain
is "$(status "$url/completions" POST --body-bytes 3000)" 413 "a body beyond the limit"
is "$(raw "POST /v1/completions HTTP/1.1\\r\\nHost: localhost\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\nbb8\\r\\n$(printf 'x%.0s' $(seq 3000))\\r\\n0\\r\\n\\r\\n")" 413 "also one without a length"
echo '[{"instruction":"The old","input":"","output":"x"}]' > "$tmp/ask.json"
ask_all() { quiet "$ASSAY" eval --task instruct --items "$tmp/ask.json" --max-new-tokens 8 --config "$tmp/run.ini" "$@"; }
ask_all --model "$url#tiny" --out "$tmp/by-server.msgpack"
ask_all --model "$tmp/m" --vocab "$tmp/v.tiktoken" --template plain --out "$tmp/by-us.msgpack"
said() { "$ASSAY" cat "$1" | grep -o '"text":.*"tokens_in":[0-9]*\|"tokens_in":[0-9]*'; }
is "$(said "$tmp/by-server.msgpack")" "$(said "$tmp/by-us.msgpack")" "a server's template is put on once: by the server"
ok "which the identity says" grep -q '"template": "[0-9a-f]* in the server' "$tmp/by-server.msgpack.manifest.json"
many='{"prompt":"The","max_tokens":120,"temperature":1,"n":400}'
post completions "$many" status usage.completion_tokens > "$tmp/many" &
client=$!
for _ in $(seq 100); do [ "$(ask "$root/health" --get waiting)" -gt 2 ] && break; sleep 0.02; done
is "$(post completions '{"prompt":"a"}' status error.type | tr '\n' ' ')" "429 rate_limit_error " "a full queue"
# ---- the end, with work under way
kill -TERM $pid
for _ in $(seq 100); do grep -q 'no new requests' "$tmp/serve.err" && break; sleep 0.02; done
is "$(status "$root/health")" 599 "told to end, it takes no new connection"
wait $client
is "$(head -1 "$tmp/many")" 200 "what was under way is answered"
ok "whole" [ "$(tail -1 "$tmp/many")" -gt 4000 ]
wait $pid
is $? 0 "and then it ends well"
pid=
start --rows 1 --drain 0 --template plain
post completions "$many" status error.message > "$tmp/many" &
client=$!
for _ in $(seq 100); do [ "$(ask "$root/health" --get waiting)" -gt 2 ] && break; sleep 0.02; done
stop
wait $client
is "$(head -1 "$tmp/many") $rc" "503 0" "without time to drain it says so"

# ---- keys
ok "an address that others reach wants a key" fails 2 "set a key in the environment variable ASSAY_API_KEY" env -u ASSAY_API_KEY "$ASSAY" serve --model "$tmp/m" --vocab "$tmp/v.tiktoken" --port 0 --host 0.0.0.0
export ASSAY_API_KEY=sesame-1234
start --host 0.0.0.0
url=http://127.0.0.1:${url##*:}
url=${url%/v1}/v1
root=${url%/v1}
is "$(status "$url/models")" 401 "no key, no answer"
is "$(status "$url/models" GET --header 'Authorization: Bearer sesame')" 401 "half a key neither"
is "$(status "$url/models" GET --header 'Authorization: Bearer sesame-12345')" 401 "nor too much of one"
is "$(ask "$url/models" GET --header 'Authorization: Bearer sesame-1234' --get data.0.id)" tiny "the key opens"
is "$(ask "$url/models" GET --header 'authorization: bearer sesame-1234' --get data.0.id)" tiny "in whatever case the scheme is written"
is "$(status "$root/health")" ok "health needs none"
is "$("$ASSAY" sample --model "$url#tiny" --prompt "The" --max-new-tokens 3 2> /dev/null | wc -l)" 1 "our client takes it from the environment"
stop
ok "the key is in no log" bash -c "! grep -q sesame '$tmp/serve.err' '$tmp/serve.out'"
ok "a port that is taken is an error" fails 1 "listen on" bash -c "perl -MIO::Socket::INET -e '\$s = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\"); \$p = \$s->sockport; system @ARGV, \"--port\", \$p; exit(\$? >> 8)' '$ASSAY' serve --model '$tmp/m' --vocab '$tmp/v.tiktoken'"
start
ok "a second server on one port is an error too" fails 1 "the port is in use; give another with --port" timeout 20 "$ASSAY" serve --model "$tmp/m" --vocab "$tmp/v.tiktoken" --port "$(echo "$root" | sed 's/.*://')"
stop
ok "a host that is no address" fails 2 "no address" "$ASSAY" serve --model "$tmp/m" --vocab "$tmp/v.tiktoken" --host example.com
done_testing
