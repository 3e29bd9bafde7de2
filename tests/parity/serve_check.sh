#!/bin/sh
# make serve-check: an environment with openai and lm-evaluation-harness from PyPI, then
# tests/parity/serve_clients.py. FOLDER ASSAY SHARED_DATA
set -e
dir=$1 tool=$2 data=$3
if [ ! -f "$data/eval/copa.jsonl" ]; then
    echo "serve-check skipped: no $data/eval/copa.jsonl (set ASSAY_DATA)"
    exit 0
fi
if [ ! -x "$dir/venv/bin/lm_eval" ]; then
    mkdir -p "$dir"
    if ! { python3 -m venv "$dir/venv" && "$dir/venv/bin/pip" install -q openai 'lm-eval[api]' transformers; } > "$dir/pip.log" 2>&1; then
        rm -rf "$dir/venv"
        echo "serve-check skipped: openai and lm-eval can't be installed from PyPI ($dir/pip.log)"
        exit 0
    fi
fi
HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false "$dir/venv/bin/python" tests/parity/serve_clients.py "$tool" "$data"
