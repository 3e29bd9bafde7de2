#!/usr/bin/env bash
# Makes tests/golden/export.tfevents and export.events: our event file of export.jsonl, and what TensorBoard's own reader sees in it.
#   ASSAY=build/assay ASSAY_PYTHON=venv/bin/python tests/golden/make_events.sh       (pip install tensorboard)
set -e
tmp=$(mktemp -d)
"$ASSAY" result --from tests/golden/export.jsonl --out "$tmp/r" --quiet
"$ASSAY" export --to tensorboard --out "$tmp/tb" "$tmp/r" --quiet
cp "$tmp/tb/golden/events.out.tfevents.assay" tests/golden/export.tfevents
"$ASSAY_PYTHON" tests/golden/read_events.py tests/golden/export.tfevents > tests/golden/export.events
rm -rf "$tmp"
