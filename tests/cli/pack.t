#!/usr/bin/env bash
# Going home: a run packed on one machine and unpacked on another, where make leaves what is sealed.
. tests/cli/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/files" "$tmp/home" "$tmp/hardware"
printf '[hardware]\nname = rented\ncount = 1\nprice_hour = 10.32\nprice_currency = USD\n' > "$tmp/hardware/rented.ini"
small_run > "$tmp/files/tiny.ini"
go() { make run DEPS=0 BUILD="$BUILD" RUN_FILES="$tmp/files" RUN=tiny "$@" > "$tmp/log" 2>&1; }
go RUNS_DIR="$tmp/far"
is $? 0 "a run on the far machine" || sed 's/^/# /' "$tmp/log" | tail -20

# ---- the archive
"$ASSAY" tag "$tmp/far/tiny" --add keeper --note "as seen" --quiet > "$tmp/log" 2>&1 || sed 's/^/# /' "$tmp/log"
ok "pack" "$ASSAY" pack "$tmp/far/tiny" --small 4K --out "$tmp/a.tar" --quiet
is "$("$ASSAY" pack "$tmp/far/tiny/" --small 4K --out "$tmp/b.tar" --quiet)" "$tmp/b.tar" "it prints the archive's name"
ok "equal folders give equal archives" cmp -s "$tmp/a.tar" "$tmp/b.tar"
"$ASSAY" pack "$tmp/far/tiny" --small 4K --out "$tmp/b.tar" 2> "$tmp/err" > /dev/null
left=$(python3 - "$tmp/far/tiny" "$tmp/b.tar" <<'PY'
import json, os, sys, tarfile
t = tarfile.open(sys.argv[2])
names = {m.name[5:] for m in t.getmembers()}
left = 0
for n in names:
    if n.endswith("manifest.json"):
        d = json.load(t.extractfile("tiny/" + n))
        left += any(os.path.normpath(os.path.join(os.path.dirname(n), o["path"])) not in names for o in d["outputs"])
print(left)
PY
)
ok "it counts what leaves its bulk behind, models too: $left" test "$left" -gt 4 -a "$(grep -c "; $left artefacts leave their bulk behind" "$tmp/err")" = 1 || sed 's/^/# /' "$tmp/err"
"$ASSAY" pack "$tmp/far/tiny" --out "$tmp" > "$tmp/log" 2>&1
is "$? $(grep -c 'is a folder; name the archive' "$tmp/log")" "2 1" "a folder is no archive's name"
"$ASSAY" pack "$tmp/far/tiny" --out "$tmp/far/tiny/result.msgpack" > "$tmp/log" 2>&1
is "$? $("$ASSAY" cat "$tmp/far/tiny/result.msgpack" | wc -l)" "2 1" "an archive is not written into the run that it packs"
"$ASSAY" pack "$tmp/far/tiny" --out "$tmp/nosuch/a.tar" > "$tmp/log" 2>&1
is "$? $(grep -c 'there is no folder .*nosuch$' "$tmp/log") $(ls "$tmp" | grep -c nosuch)" "2 1 0" "a folder that is not there is not made"
tar tf "$tmp/a.tar" > "$tmp/list" 2> "$tmp/err"
is $? 0 "tar reads it"
is "$(cat "$tmp/err")" "" "and says nothing against it"
is "$(head -1 "$tmp/list")" "tiny/packed.json" "its list comes first"
for f in run.ini result.msgpack result.notes.msgpack pretrain/metrics.jsonl pretrain/manifest.json shards/manifest.json \
    eval/responses-1.msgpack scores/exact-1.msgpack vocab.tiktoken; do
    ok "it holds $f" grep -qx "tiny/$f" "$tmp/list"
done
is "$(grep -cE 'safetensors|shard_.*bin|docs.jsonl|\.lock' "$tmp/list")" 0 "and no weights, shards, documents"
mkdir "$tmp/x"
tar xf "$tmp/a.tar" -C "$tmp/x"
ok "what tar extracts is what was packed" cmp -s "$tmp/x/tiny/result.msgpack" "$tmp/far/tiny/result.msgpack"
"$ASSAY" pack "$tmp/far/tiny" --with model --small 4K --out "$tmp/m.tar" --quiet > /dev/null
ok "--with model: the weights are in it" grep -q 'step-.*/model.safetensors' <(tar tf "$tmp/m.tar")
is "$(tar tf "$tmp/m.tar" | grep -c optimizer)" 0 "--with model: not the optimiser"
"$ASSAY" pack "$tmp/far/tiny" --with model,optimizer --small 1G --out "$tmp/all.tar" --quiet > /dev/null
"$ASSAY" pack "$tmp/far/tiny" --with modle --out "$tmp/n.tar" > "$tmp/log" 2>&1
is $? 2 "--with something else is refused"

# ---- unpacked
"$ASSAY" unpack "$tmp/a.tar" --runs "$tmp/home" > /dev/null 2> "$tmp/err"
is "$? $(grep -c "; $left artefacts left their bulk" "$tmp/err")" "0 1" "unpack counts the same" || sed 's/^/# /' "$tmp/err"
"$ASSAY" verify "$tmp/home/tiny" > "$tmp/log" 2>&1
is $? 0 "verify finds every file as its manifest says, or sealed" || sed 's/^/# /' "$tmp/log"
is "$("$ASSAY" compare "$tmp/home" --list --where tags=keeper --columns notes --format csv | tail -1 | tr -d '\r')" "tiny,as seen" "tags and notes came along"
ok "the pre-training is sealed" grep -q 'sealed .*pretrain$' "$tmp/log"
before=$(cd "$tmp/home/tiny" && find . -name '*manifest.json' | sort | xargs sha256sum)
go RUNS_DIR="$tmp/home"
is $? 0 "make run there" || sed 's/^/# /' "$tmp/log" | tail
is "$(cd "$tmp/home/tiny" && find . -name '*manifest.json' | sort | xargs sha256sum)" "$before" "no stage ran"
is "$(grep -c 'sealed, made on' "$tmp/log")" 9 "each that lacks bulk says so" || sed 's/^/# /' "$tmp/log"
go RUNS_DIR="$tmp/home"
is "$(grep -c 'sealed, made on' "$tmp/log")" 0 "again: make does not even ask"
is "$("$ASSAY" cat "$tmp/home/tiny/result.msgpack" | md5sum)" "$("$ASSAY" cat "$tmp/far/tiny/result.msgpack" | md5sum)" "the result is the same"
rm "$tmp/home/tiny/result.msgpack.manifest.json"
go RUNS_DIR="$tmp/home" HARDWARE_FILES="$tmp/hardware" HARDWARE=rented
is $? 0 "a result can be collected again, with a price" || sed 's/^/# /' "$tmp/log" | tail
ok "and then has one" grep -q '"price_hour":10.32' <("$ASSAY" cat "$tmp/home/tiny/result.msgpack")
ok "its data's hashes are still in it" grep -qE '"instruct_hash":"[0-9a-f]{64}".*"train_docs":362' <("$ASSAY" cat "$tmp/home/tiny/result.msgpack")

# ---- what can't be done there
go RUNS_DIR="$tmp/home" SET=train.lr=1e-3
is $? 2 "another learning rate can't be made there"
ok "and the sentence says where it was made, and what differs" grep -q "pretrain is sealed: what it needs lies on $(hostname).*train.lr = 0.0006, the run file now says 0.001" "$tmp/log" || sed 's/^/# /' "$tmp/log"
go RUNS_DIR="$tmp/home" SET=eval.max_new_tokens=5
ok "nor another answer length" grep -q 'is sealed.*eval.max_new_tokens' "$tmp/log"
sed -n 's/.*sealed: what it needs/&/p' "$tmp/log" | grep -oE '[a-z0-9./-]* is sealed' > "$tmp/which"
ok "and it is the answers that can't be, not the losses" grep -q 'responses-1.msgpack is sealed' "$tmp/which"
is "$(grep -c 'windows\|documents' "$tmp/which")" 0 "whose windows know nothing of answers"
go RUNS_DIR="$tmp/home" SET=eval.precision=bf16
ok "an option that is of all of them refuses the first" grep -q 'is sealed.*eval.precision = fp32, the run file now says bf16' "$tmp/log" || sed 's/^/# /' "$tmp/log"
go RUNS_DIR="$tmp/home" SET="eval.tasks= eval.temperature=0.5"
is "$(grep -o '[a-z0-9-]*.msgpack is sealed' "$tmp/log")" "responses-1.msgpack is sealed" "a temperature refuses the answers alone"
go RUNS_DIR="$tmp/home" SET=eval.tokens=64
ok "another slice of the windows can't be" grep -q 'windows.msgpack is sealed.*eval.tokens' "$tmp/log"
go RUNS_DIR="$tmp/home" SET=train.threads=1
is $? 0 "an option that changes no number may differ" || sed 's/^/# /' "$tmp/log" | tail
cp "$tmp/home/tiny/shards/manifest.json" "$tmp/keep"
sed -i 's/^  "hash": "[0-9a-f]\{8\}/  "hash": "00000000/' "$tmp/home/tiny/shards/manifest.json"
touch "$tmp/home/tiny/shards/manifest.json"
go RUNS_DIR="$tmp/home" SET=train.threads=1
ok "nor from other data" grep -q 'pretrain is sealed.*made from another ../shards' "$tmp/log" || sed 's/^/# /' "$tmp/log"
cp "$tmp/keep" "$tmp/home/tiny/shards/manifest.json"
"$ASSAY" unpack "$tmp/a.tar" --runs "$tmp/home" > "$tmp/log" 2>&1
is $? 1 "a run that is there is not overwritten"
ok "unless asked for" "$ASSAY" unpack "$tmp/m.tar" --runs "$tmp/home" --replace --quiet
ok "with its model it can be used" "$ASSAY" sample --model "$tmp/home/tiny/pretrain" --prompt-ids 1,2 --ids --quiet

# what --replace would destroy
cp -r "$tmp/far" "$tmp/local"
mkdir "$tmp/local/.unpack.999999999" "$tmp/local/.unpack.999999998.old"
"$ASSAY" unpack "$tmp/a.tar" --runs "$tmp/local" --replace > "$tmp/log" 2>&1
is "$? $(cd "$tmp/local/tiny" && find . -name '*.safetensors' -o -name state.msgpack | wc -l) $(grep -c 'of the run that was there are kept' "$tmp/log")" \
   "0 4 1" "--replace keeps the models, the optimiser and its state whose manifests are the archive's" || sed 's/^/# /' "$tmp/log"
ok "and latest, which names them" test -e "$tmp/local/tiny/pretrain/latest/model.safetensors"
"$ASSAY" verify "$tmp/local/tiny" > "$tmp/log" 2>&1 # its lines begin with "ok", which prove would count
is $? 0 "all of it as it was made" || sed 's/^/# /' "$tmp/log"
is "$(cd "$tmp/local" && ls -d .unpack* 2> /dev/null)" "" "what killed unpacks left is gone"
model=$(cd "$tmp/local/tiny" && ls pretrain/step-*/model.safetensors)
printf x >> "$tmp/local/tiny/$model"
before=$(cd "$tmp/local/tiny" && find . -type f | sort | xargs sha256sum)
"$ASSAY" unpack "$tmp/a.tar" --runs "$tmp/local" --replace > "$tmp/log" 2>&1
is "$? $(grep -c "has 1 file (.* bytes) that the archive lacks and --replace would destroy: $model; move" "$tmp/log")" "1 1" "another model is not destroyed but named" || sed 's/^/# /' "$tmp/log"
ok "and nothing was touched" test "$(cd "$tmp/local/tiny" && find . -type f | sort | xargs sha256sum)" = "$before" -a -z "$(ls -d "$tmp"/local/.unpack* 2> /dev/null)"

# whole: nothing is sealed, and everything is where it was
ok "all of it" "$ASSAY" unpack "$tmp/all.tar" --runs "$tmp/whole" --quiet
is "$(cd "$tmp/whole/tiny" && find . -type f ! -name 'packed.*' | sort | xargs sha256sum)" \
   "$(cd "$tmp/far/tiny" && find . -type f ! -name .lock | sort | xargs sha256sum)" "--with model,optimizer --small 1G is the whole run"
go RUNS_DIR="$tmp/whole" SET=eval.max_new_tokens=5
is $? 0 "a whole run goes on as if nothing had happened" || sed 's/^/# /' "$tmp/log" | tail

# ---- hostile and damaged archives leave nothing behind
python3 - "$tmp" <<'PY'
import io, json, sys, tarfile, hashlib
tmp = sys.argv[1]
good = tarfile.open(tmp + "/a.tar")
names = good.getmembers()
body = {m.name: good.extractfile(m).read() for m in names if m.isfile()}
def write(name, change):
    t = tarfile.open(f"{tmp}/bad-{name}.tar", "w", format=tarfile.USTAR_FORMAT)
    files = [[m.name, body[m.name], tarfile.REGTYPE, ""] for m in names if m.isfile()]
    change(files)
    for n, b, kind, target in files:
        i = tarfile.TarInfo(n); i.type = kind; i.linkname = target; i.size = len(b) if kind == tarfile.REGTYPE else 0
        t.addfile(i, io.BytesIO(b))
    t.close()
def listed(files, path, **entry):
    d = json.loads(files[0][1]); d["files"].append({"path": path, **entry}); files[0][1] = json.dumps(d).encode()
sha = hashlib.sha256(b"evil").hexdigest()
write("unlisted", lambda f: f.append(["tiny/extra", b"evil", tarfile.REGTYPE, ""]))
write("outside", lambda f: f.append(["tiny/../../evil", b"evil", tarfile.REGTYPE, ""]))
def outside(f): listed(f, "../evil", bytes=4, sha256=sha)
write("listed-outside", outside)
write("absolute", lambda f: f.append(["/tmp/evil-assay", b"evil", tarfile.REGTYPE, ""]))
def link(f): listed(f, "way", link="../.."); f.append(["tiny/way", b"", tarfile.SYMTYPE, "../.."])
write("link", link)
def through(f):
    listed(f, "way", link="here"); listed(f, "way/x", bytes=4, sha256=sha)
    f.append(["tiny/way", b"", tarfile.SYMTYPE, "elsewhere"])
write("otherlink", through)
def damaged(f): f[3][1] = f[3][1][:-1] + b"\x00"
write("damaged", damaged)
write("missing", lambda f: f.pop())
write("twice", lambda f: f.append(list(f[2])))
write("nolist", lambda f: f.pop(0))
write("device", lambda f: f.append(["tiny/dev", b"", tarfile.FIFOTYPE, ""]))
whole = open(tmp + "/a.tar", "rb").read()
open(tmp + "/bad-cut.tar", "wb").write(whole[:len(whole) // 2])
open(tmp + "/bad-noend.tar", "wb").write(whole[:-1024])
open(tmp + "/bad-list.tar", "wb").write(whole[:600] + b"Z" + whole[601:])
open(tmp + "/bad-header.tar", "wb").write(whole[:105] + b"7" + whole[106:])  # a mode: only the checksum sees it
open(tmp + "/bad-empty.tar", "wb").write(b"")
PY
for f in "$tmp"/bad-*.tar; do
    n=$(basename "$f" .tar)
    "$ASSAY" unpack "$f" --runs "$tmp/bad" > "$tmp/log" 2>&1
    is "$? $(wc -l < "$tmp/log") $(ls -d "$tmp/bad" 2>/dev/null | wc -l)" "1 1 0" "$n: one sentence, nothing left, no folder either" || sed 's/^/# /' "$tmp/log"
done
ok "nothing lies outside" test ! -e "$tmp/evil" -a ! -e /tmp/evil-assay
gzip -k "$tmp/a.tar"
ok "a gzipped archive is read as well" "$ASSAY" unpack "$tmp/a.tar.gz" --runs "$tmp/gz" --quiet
done_testing
