#!/usr/bin/env bash
# panel_runs: assay judge --panel over the answers of runs: make judge PANEL=p RUNS="a b".
#
#   panel_runs.sh ASSAY PANEL_DIR RUNS_DIR "RUN..." [option]...
#
# Each run's eval/responses-SEED.msgpack becomes RUN (or RUN-SEED, if it has several). The items are
# the first run's test items, or those of the run that its data come from.
set -u
assay=$1 panel=$2 dir=$3 runs=$4
shift 4
args=()
items=
for run in $runs; do
    found=("$dir/$run"/eval/responses-*.msgpack)
    if ! [ -e "${found[0]}" ]; then
        echo "judge: run $run has no answers: $dir/$run/eval/responses-SEED.msgpack is not there" >&2
        exit 1
    fi
    for f in "${found[@]}"; do
        seed=${f##*/responses-}
        name=$run
        [ ${#found[@]} -gt 1 ] && name=$run-${seed%.msgpack}
        args+=("$name=$f")
    done
    if [ -z "$items" ]; then
        from=$(sed -n '/^\[data\]/,/^\[[^d]/s/^run *= *\(..*\)$/\1/p' "$dir/$run/run.ini" 2> /dev/null | head -1)
        for data in "$run" "$from"; do
            [ -n "$data" ] && [ -e "$dir/$data/data/instruct_test.msgpack" ] && items=$dir/$data/data/instruct_test.msgpack && break
        done
    fi
done
[ -e "$panel/panel.ini" ] || [ -n "$items" ] || { echo "judge: the runs have no instruct_test.msgpack" >&2; exit 1; }
exec "$assay" judge --panel "$panel" ${items:+--items "$items"} ${args:+--responses "${args[@]}"} "$@"
