#!/usr/bin/env bash
# The measurements of a GPU machine that has torch and numpy only, each in under ten minutes:
#
#     bash benchmarks/gpu_session.sh engine FOLDER     the engine's nine settings, taking turns
#     bash benchmarks/gpu_session.sh rest FOLDER       drawing, parts of a step, checks
#
# Each leaves FOLDER/NAME.tgz. At home, from the commit whose files were copied:
#
#     tar xzf engine.tgz && python benchmarks/engine.py evidence engine
#     tar xzf rest.tgz && python benchmarks/gpu_checks.py --evidence rest
#     python benchmarks/drawing.py --evidence rest
set -u
what=$1
folder=$2
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
export PYTHONPATH=$here PYTHONUNBUFFERED=1
python=${PYTHON:-python3}
found=$work/$what
mkdir -p "$found" "$folder"

engine() {
    local each
    for each in "28 dp 32" "28 dp 8" "28 dp 4" "28 dp 1" "28 plain 32" \
        "32 dp 32" "32 dp 4" "32 dp 1" "32 plain 32"; do
        set -- $each
        "$python" "$here/benchmarks/engine.py" measure --network "$1" --step "$2" --draws "$3" \
            --out "$found" --turns "$work/turns" --of 9 &
    done
    wait
}

rest() {
    "$python" "$here/benchmarks/drawing.py" --device cuda --out "$found"
    "$python" "$here/benchmarks/step_parts.py" --device cuda --steps 40 --out "$found"
    "$python" "$here/benchmarks/gpu_checks.py" --out "$found"
}

case $what in
engine | rest) "$what" ;;
*)
    echo "engine or rest, not $what" >&2
    exit 2
    ;;
esac
tar czf "$folder/$what.tgz" -C "$work" "$what"
