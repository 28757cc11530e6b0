#!/usr/bin/env bash
# The measurements of a GPU machine that has torch and numpy only:
#
#     bash benchmarks/gpu_session.sh engine FOLDER     the engine's eleven settings, taking turns
#     bash benchmarks/gpu_session.sh rest FOLDER       drawing, parts of a step, checks
#     bash benchmarks/gpu_session.sh cells FOLDER JOB PATTERN...    cells of a packed job
#     bash benchmarks/gpu_session.sh loads FOLDER JOB  at home: a packed job as FOLDER/1, FOLDER/2 ...
#     bash benchmarks/gpu_session.sh load FOLDER JOB   one of these into JOB, outside the work tree
#     bash benchmarks/gpu_session.sh back FOLDER JOB NUMBER    the NUMBERth 60 MiB of its result
#
# The first two take under ten minutes. Cells are fitted and drawn from one after the other, so that
# each has the GPU for itself, and their classifiers are trained side by side. They take longer than
# some machines allow a command: start them with `setsid`, look at JOB/*.log, and cut off, begin
# again with the same words.
#
# Some machines take no more than 64 MiB a call: each of the loads has at most 48 (LOAD bytes) and
# may be carried alone, in any order. Nor do they give back more than 64 MiB, in files of 16: `cells`
# ends with the first such part of the result and says how many there are, `back` brings any. With
# SAMPLES=none samples stay there.
#
# The first two leave FOLDER/NAME.tgz, `cells` and `back` FOLDER/result. At home, from the commit
# whose files were copied, with all that `back` brought in one folder:
#
#     tar xzf engine.tgz && python benchmarks/engine.py evidence engine
#     tar xzf rest.tgz && python benchmarks/gpu_checks.py --evidence rest
#     python benchmarks/drawing.py --evidence rest
#     understudy bench collect result
set -u
umask 077
if [ $# -lt 2 ]; then
    echo "say what to do (engine, rest, cells, loads, load or back) and with which FOLDER" >&2
    exit 2
fi
what=$1
folder=$2
shift 2
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
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
    "$python" -m understudy.bench.away "$job" --phases classify --cells "$1" \
        --result "$job.result" --samples "${SAMPLES:-all}"
    back "$job" 1
}

loads() {
    local job=$1 most=${LOAD:-50331648} number=1 size=0 file length
    if [ -e "$folder/1" ]; then
        echo "$folder holds loads already; choose another FOLDER" >&2
        exit 2
    fi
    while IFS= read -r file; do
        length=$(wc -c <"$job/$file")
        if [ "$size" -gt 0 ] && [ $((size + length)) -gt "$most" ]; then
            number=$((number + 1))
            size=0
        fi
        size=$((size + length))
        mkdir -p "$folder/$number/$(dirname "$file")"
        cp "$job/$file" "$folder/$number/$file" || exit 1
    done < <(cd "$job" && find cells manifest.json pieces references -type f 2>/dev/null | sort)
    echo "$number loads in $folder"
}

load() {
    mkdir -p "$1"
    cp -R "$folder/." "$1" || exit 1
    # Until the last load has come, some pieces are missing: that is said, and no failure.
    "$python" -m understudy.bench.away "$1" --check || true
}

back() {
    local result=$1.result count=0 file
    mkdir -p "$folder/result/pieces"
    cp "$result/manifest.json" "$folder/result" || exit 1
    for file in "$result"/pieces/*; do
        count=$((count + 1))
        if [ $(((count + 3) / 4)) -eq "$2" ]; then
            cp "$file" "$folder/result/pieces" || exit 1
        fi
    done
    echo "this is $2 of $(((count + 3) / 4)) parts of the result"
}

case $what in
engine | rest)
    "$what"
    tar czf "$folder/$what.tgz" -C "$work" "$what"
    ;;
cells | loads | load | back) "$what" "$@" ;;
*)
    echo "engine, rest, cells, loads, load or back, not $what" >&2
    exit 2
    ;;
esac
