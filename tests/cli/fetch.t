#!/usr/bin/env bash
# assay fetch, from the outside, against the scripted loopback server.
. tests/cli/tap.sh
tmp=$(mktemp -d)
server=
stop() { # ends the server by closing its stdin
    [ -n "$server" ] && exec 7>&- && wait "$server"
    server=
}
trap 'stop; rm -rf "$tmp"' EXIT
serve() { # reads the script from stdin; sets url
    stop
    cat > "$tmp/script"
    rm -f "$tmp/in"
    mkfifo "$tmp/in"
    : > "$tmp/port"
    "$BUILD/tests/httpd" "$tmp/script" --log "$tmp/log" < "$tmp/in" > "$tmp/port" &
    server=$!
    exec 7> "$tmp/in"
    for _ in $(seq 100); do
        [ -s "$tmp/port" ] && break
        sleep 0.05
    done
    url=http://127.0.0.1:$(cat "$tmp/port")
}
fetch() { "$ASSAY" fetch "$@" > "$tmp/out" 2> "$tmp/err" 7>&-; }
fails() { # exit words args...
    local want=$1 words=$2 rc
    shift 2
    fetch "$@"
    rc=$?
    [ $rc = "$want" ] && grep -q -- "$words" "$tmp/err" && return 0
    echo "# exit $rc, want $want; said: $(cat "$tmp/err")"
    return 1
}
asked() { wc -l < "$tmp/log"; }

seq 100000 > "$tmp/data"
sha=$(sha256sum < "$tmp/data" | cut -d' ' -f1)
wrong=${sha//[0-9]/0}

# ---- one URL
serve << END
on GET /d.bin?key=sesame
range
etag "1"
cut 200000
file $tmp/data
on GET /d.bin?key=sesame
range
etag "1"
file $tmp/data
on GET /cut
cut 1000
range
etag "1"
file $tmp/data
on GET /page
status 500
body <html>
END
f=$tmp/got/d.bin
ok "a URL that is cut half way arrives" fetch "$url/d.bin?key=sesame" --out "$f" --sha256 "$sha"
ok "byte for byte" cmp -s "$f" "$tmp/data"
ok "and is printed as sha256sum reads it" sha256sum -c --status "$tmp/out"
ok "the rest was asked for" grep -q 'Range: bytes=200000-' "$tmp/log"
is "$(find "$tmp/got" -type f | wc -l)" 2 "beside it is its manifest, and nothing else"
is "$(grep -c sesame "$f.manifest.json" "$tmp/err" | grep -c ':0$')" 2 "the key in the URL is in no manifest and no message"
n=$(asked)
ok "the second time" fetch "$url/d.bin?key=sesame" --out "$f" --sha256 "$sha"
ok "it is up to date" grep -q 'up to date' "$tmp/err"
is "$(asked)" "$n" "and nobody is asked"
ok "another hash is another wish" fails 1 "SHA-256 is $sha, want $wrong" "$url/d.bin?key=sesame" --out "$f" --sha256 "$wrong"
is "$(ls "$tmp/got")" d.bin "and what was there before stays"
mkdir "$tmp/dir"
ok "into a folder the file keeps its name" fetch "$url/d.bin?key=sesame" --out "$tmp/dir"
ok "without the query" cmp -s "$tmp/dir/d.bin" "$tmp/data"
ok "a hash that was not known is said to be unpinned" grep -q unpinned "$tmp/err"
ok "a URL that is not there" fails 1 '404' "$url/none" --out "$tmp/n"
ok "a server that fails, resumable" fails 4 'status 500' "$url/page" --out "$tmp/n" --tries 1
ok "a cut, resumable" fails 4 '1000 bytes are kept' "$url/cut" --out "$tmp/n" --tries 1
ok "no file has the final name" test ! -e "$tmp/n"
ok "the part is kept" test "$(stat -c %s "$tmp/n.part")" = 1000

# ---- a kill and a full disk
serve << END
on GET /d
range
etag "1"
drip 100000 0.4
file $tmp/data
on GET /d
range
etag "1"
file $tmp/data
END
k=$tmp/kill/d
"$ASSAY" fetch "$url/d" --out "$k" > /dev/null 2>&1 7>&- &
pid=$!
for _ in $(seq 100); do
    [ -s "$k.part" ] && break
    sleep 0.05
done
kill -9 $pid
wait $pid 2> /dev/null
ok "after kill -9 there is a part and no file" test -s "$k.part" -a ! -e "$k"
ok "rerunning finishes" fetch "$url/d" --out "$k"
ok "with the same bytes" cmp -s "$k" "$tmp/data"
ok "from where it stood" grep -q 'Range: bytes=[1-9]' "$tmp/log"
for i in 1 2 3 4 5 6 7; do
    (ASSAY_FAULT=kill:$i "$ASSAY" fetch "$url/d" --out "$tmp/kill/$i" 7>&-) > "$tmp/out" 2>&1
    [ $? = 137 ] || break
    [ -e "$tmp/kill/$i" ] && ! cmp -s "$tmp/kill/$i" "$tmp/data" && break
    fetch "$url/d" --out "$tmp/kill/$i" && cmp -s "$tmp/kill/$i" "$tmp/data" || break
done
is "$i" 7 "killed at any of its first writes, it finishes the next time"
is "$(find "$tmp/kill" -name '*.tmp.*' -o -name '*.part*' | wc -l)" 0 "and leaves no temporary file"
ASSAY_FAULT=write:3 fetch "$url/d" --out "$tmp/full/d"
is "$?" 1 "a full disk is an error"
ok "in one sentence" grep -q 'No space left on device' "$tmp/err"
ok "without the file" test ! -e "$tmp/full/d"

# ---- local files
ok "a path is copied" fetch "$tmp/data" --out "$tmp/copy" --sha256 "$sha"
ok "whole" cmp -s "$tmp/copy" "$tmp/data"
cp "$tmp/data" "$tmp/a b"
ok "a file URL too" fetch "file://$tmp/a%20b" --out "$tmp/copy2"
ok "whole" cmp -s "$tmp/copy2" "$tmp/data"
echo more >> "$tmp/a b"
fetch "file://$tmp/a%20b" --out "$tmp/copy2"
ok "again when it changed" cmp -s "$tmp/copy2" "$tmp/a b"
ok "a wrong hash" fails 1 "want $wrong; nothing was written" "$tmp/data" --out "$tmp/c3" --sha256 "$wrong"
ok "nothing was written" test ! -e "$tmp/c3" -a ! -e "$tmp/c3.manifest.json"
ok "a missing path" fails 1 'No such file' "$tmp/none" --out "$tmp/c3"
ok "a folder" fails 1 'is a folder' "$tmp" --out "$tmp/c3"

# ---- what is asked wrongly
ok "no source" fails 2 'what to fetch' --out x
ok "no --out" fails 2 '--out is needed' gpt2
ok "a near miss" fails 2 'did you mean "gpt2"' gpt-2 --out "$tmp/x"
ok "an unknown name" fails 2 'no known source' wikipedia --out "$tmp/x"
ok "another scheme" fails 2 'only http, https and file' ftp://h/x --out "$tmp/x"
ok "a hash that is none" fails 2 '64 hex digits' "$tmp/data" --out "$tmp/x" --sha256 12
ok "a mirror for a URL" fails 2 'goes with the name of a source' "$tmp/data" --out "$tmp/x" --mirror "$tmp"
ok "none of these wrote anything" test ! -e "$tmp/x"
fetch --list
ok "--list shows every source with its licence" test "$(grep -c licence: "$tmp/out")" -ge 7
ok "and where it comes from" grep -q 'https://huggingface.co/datasets/kjj0/fineweb10B-gpt2/' "$tmp/out"

# ---- real files through mirrors
data=${ASSAY_DATA:-../shared/data}
if [ -d "$data/tokenizer" ] && [ -d "$data/text" ] && [ -d "$data/instruct" ]; then
    ok "gpt2 from a folder" fetch gpt2 --out "$tmp/gpt2" --mirror "$data/tokenizer"
    ok "has both files" cmp -s "$tmp/gpt2/encoder.json" "$data/tokenizer/encoder.json"
    "$ASSAY" verify "$tmp/gpt2" > "$tmp/out" 2>&1
    is "$?" 0 "verified"
    for v in r50k_base cl100k_base o200k_base; do
        ok "$v has the pinned hash" fetch $v --out "$tmp/$v.tiktoken" --mirror "$data/tokenizer"
    done
    serve << END
on GET /karpathy/char-rnn/master/data/tinyshakespeare/input.txt
file $data/text/tinyshakespeare.txt
on GET /m/rasbt/LLMs-from-scratch/main/ch07/01_main-chapter-code/instruction-data.json
file $data/instruct/instruction-data.json
END
    ok "tinyshakespeare from a mirror" fetch tinyshakespeare --out "$tmp/s.txt" --mirror "$url"
    ok "whole" cmp -s "$tmp/s.txt" "$data/text/tinyshakespeare.txt"
    ok "instruction-data from a mirror below a path" fetch instruction-data --out "$tmp/i.json" --mirror "$url/m/"
    ok "whole" cmp -s "$tmp/i.json" "$data/instruct/instruction-data.json"
else
    skip "shared data"
fi
done_testing
