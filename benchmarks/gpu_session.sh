#!/usr/bin/env bash
# The measurements of a GPU machine that has torch and numpy only:
#
#     bash benchmarks/gpu_session.sh engine FOLDER     the engine's eleven settings, taking turns
#     bash benchmarks/gpu_session.sh rest FOLDER       drawing, parts of a step, checks
#     bash benchmarks/gpu_session.sh cells FOLDER JOB PATTERN...    cells of a packed job
#
# The first two take under ten minutes. Cells are fitted and drawn from one after the other, so that
# each has the GPU for itself, and their classifiers are trained side by side. They take longer than
# some machines allow a command: start them with `setsid`, look at JOB/*.log, and cut off, begin
# again with the same words.
#
# The first two leave FOLDER/NAME.tgz, the third FOLDER/cells.tgz.aa and so on, of 12 MB each. At
# home, from the commit whose files were copied:
#
#     tar xzf engine.tgz && python benchmarks/engine.py evidence engine
#     tar xzf rest.tgz && python benchmarks/gpu_checks.py --evidence rest
#     python benchmarks/drawing.py --evidence rest
#     cat cells.tgz.* | gunzip > cells.tar && understudy bench collect cells.tar
set -u
if [ $# -lt 2 ]; then
    echo "say what to measure (engine, rest or cells) and the FOLDER for its results" >&2
    exit 2
fi
what=$1
folder=$2
shift 2
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
export PYTHONPATH=$here PYTHONUNBUFFERED=1
python=${PYTHON:-python3}
found=$work/$what
mkdir -p "$found" "$folder"

engine() {
    local each
    for each in "28 dp 32" "28 dp 8" "28 dp 4" "28 dp 1" "28 plain 32" \
        "32 dp 32" "32 dp 8" "32 dp 4" "32 dp 1" "32 plain 32" "32 dp 1 --computed"; do
        set -- $each
        "$python" "$here/benchmarks/engine.py" measure --network "$1" --step "$2" --draws "$3" \
            --out "$found" --turns "$work/turns" --of 11 ${4-} &
    done
    wait
}

rest() {
    "$python" "$here/benchmarks/drawing.py" --device cuda --out "$found"
    "$python" "$here/benchmarks/step_parts.py" --device cuda --steps 40 --out "$found"
    "$python" "$here/benchmarks/gpu_checks.py" --out "$found"
}

away() {
    "$python" -m understudy.bench.away "$job" --device "${DEVICE:-cuda}" --phases "$1" --cells "$2"
}

cells() {
    local job=$1 pattern number=0
    shift
    for pattern in "$@"; do away fit,sample "$pattern" >>"$job/fit.log" 2>&1; done
    for pattern in "$@"; do
        number=$((number + 1))
        away classify "$pattern" >>"$job/classify-$number.log" 2>&1 &
    done
    wait
    "$python" -m understudy.bench.away "$job" --phases classify --cells "$1" --result "$work/cells.tar"
    gzip -1 <"$work/cells.tar" | split -b 12000000 - "$folder/cells.tgz."
}

case $what in
engine | rest)
    "$what"
    tar czf "$folder/$what.tgz" -C "$work" "$what"
    ;;
cells) cells "$@" ;;
*)
    echo "engine, rest or cells, not $what" >&2
    exit 2
    ;;
esac
