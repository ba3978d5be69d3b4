#!/usr/bin/env bash
# Runs on a machine with a GPU what nobody can know without one.
set -uo pipefail

readonly no_gpu=77
# What hangs is ended after so many seconds, and killed when that does not help.
readonly measuring=1200 suite=300 grace=10

usage() {
  cat <<'HELP'
usage: verify.sh [--json FILE] [--logs FOLDER] [--quick] [--smoke]

Verifies on the first visible GPU what docs/gpu-verification.md lists: the conformance suite, the tour, tensors between
processes, memory errors (with compute-sanitizer, if it is there), the benchmark's rows for GPUs, and everything that
gpu_verify measures. Prints one table; --json writes the same for programs. Needs a driver and CUDA's libraries, no
toolkit. Changes none of the GPU's settings.

  --json FILE     the table as JSON (default: gpu-verification.json)
  --logs FOLDER   what the suites print (default: gpu-verification-logs)
  --quick         the measurements only
  --smoke         small sizes, nothing judged: to see that this script works

The measurements come first; each part is ended after a while, and what one loses costs no row of another.

exit code: 0 all targets met, 1 some not, or the GPU cannot be used, 2 bad usage, 77 there is no GPU
HELP
}

json=gpu-verification.json
logs=gpu-verification-logs
quick=
smoke=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --quick) quick=1 && shift ;;
    --smoke) smoke=(--smoke) && shift ;;
    --json | --logs)
      [[ $# -ge 2 ]] || { echo "verify.sh: $1 needs a value" >&2 && exit 2; }
      [[ $1 == --json ]] && json=$2 || logs=$2
      shift 2
      ;;
    *) echo "verify.sh: \"$1\" is not understood; see --help" >&2 && exit 2 ;;
  esac
done

# In the bundle the programs lie beside this script, in a build where the build folder is.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$here/bin
[[ -d $bin ]] || bin=${GPUACTORS_BUILD_DIR:-$here/../../build}/bin
if [[ ! -x $bin/gpu_verify ]]; then
  echo "verify.sh: $bin/gpu_verify is not there: build the target gpu_verify, or unpack the whole bundle" >&2
  exit 2
fi

timeout -k "$grace" "$suite" "$bin/gpu_verify" --only none > /dev/null
probe=$?
if [[ $probe -ne 0 ]]; then
  [[ $probe -ne $no_gpu ]] || echo "verify.sh: nothing was verified" >&2
  exit "$probe"
fi

# add NAME=CODE:TEXT: a row of the table.
add() { "$bin/gpu_verify" --add "$json" --outcome "$1"; }

# run NAME COMMAND...: keeps what it prints, adds its exit code and its last line to the table.
run() {
  local name=$1 code last
  shift
  if ! command -v "$1" > /dev/null; then
    add "$name=skip"
    return
  fi
  echo "running $name"
  timeout -k "$grace" "$suite" "$@" > "$logs/$name.log" 2>&1
  code=$?
  last=$(grep -v '^[[:space:]]*$' "$logs/$name.log" | tail -n 1)
  [[ $code -ne 124 ]] || last="ended after $suite s; $last"
  add "$name=$code:$last"
}

# uuids [VISIBLE]: the GPUs that gpuactors shows, all or with such a CUDA_VISIBLE_DEVICES, in one line.
uuids() {
  local shown=()
  [[ $# -eq 0 ]] || shown=(env "CUDA_VISIBLE_DEVICES=$1")
  "${shown[@]}" timeout -k "$grace" "$suite" "$bin/gpuactors" devices --devices cuda --json 2> /dev/null | grep -o '"\(GPU\|MIG\)-[0-9a-f-]*"' | tr -d '"' | paste -sd ' '
}

# compare NAME WHAT WANTED GOT: a row that says whether two texts are the same.
compare() {
  if [[ $3 == "$4" ]]; then add "$1=0:$2: ${4:-none}"; else add "$1=1:$2: ${4:-none}, not ${3:-none}"; fi
}

# What CUDA's own tool calls the GPUs, and what each form of CUDA_VISIBLE_DEVICES gives.
check_names() {
  local all first theirs
  all=$(uuids)
  first=${all%% *}
  if [[ -z $first ]]; then
    add "uuids=1:gpuactors shows no UUID"
    return
  fi
  if command -v nvidia-smi > /dev/null; then
    # Of a divided GPU its parts are what is offered.
    theirs=$(nvidia-smi -L | grep -o 'MIG-[0-9a-f-]*' || nvidia-smi -L | grep -o 'GPU-[0-9a-f-]*')
    [[ -n ${CUDA_VISIBLE_DEVICES+set} ]] ||
      compare uuids "as nvidia-smi -L says" "$(sort <<< "$theirs")" "$(tr ' ' '\n' <<< "$all" | sort)"
  else
    add "uuids=skip"
  fi
  compare visible_uuid "CUDA_VISIBLE_DEVICES with a UUID" "$first" "$(uuids "$first")"
  compare visible_none "CUDA_VISIBLE_DEVICES that is empty" "" "$(uuids "")"
  # An index counts from what this script was shown, if that is all.
  [[ -n ${CUDA_VISIBLE_DEVICES+set} ]] || compare visible_index "CUDA_VISIBLE_DEVICES with an index" "$first" "$(uuids 0)"
  # The driver for tests knows no abbreviations.
  [[ ${#smoke[@]} -gt 0 ]] ||
    compare visible_start "CUDA_VISIBLE_DEVICES with the start of a UUID" "$first" "$(uuids "${first:0:16}")"
}

rm -f "$json"
timeout -k "$grace" "$measuring" "$bin/gpu_verify" --json "$json" "${smoke[@]}"
measured=$?
# Of what it measured it has told itself.
[[ $measured -le 1 ]] || add "measurements=$measured:not all were taken"

if [[ -z $quick ]]; then
  mkdir -p "$logs" || exit 2
  # A kernel that is loaded when it is first launched may wait for one that waits for it.
  export CUDA_MODULE_LOADING=EAGER
  run conformance env GPUACTORS_CONFORMANCE=cuda "$bin/test_conformance"
  run conformance_lazy env -u CUDA_MODULE_LOADING GPUACTORS_CONFORMANCE=cuda "$bin/test_conformance"
  run actors "$bin/gpu_actors" "${smoke[@]}"
  if [[ -x $bin/gpuactors ]]; then
    run devices "$bin/gpuactors" devices --devices cuda --json
    check_names
  fi
  # The tests of the tree run it anyway, and alone.
  [[ ! -x $bin/test_processes_cuda || ${#smoke[@]} -gt 0 ]] || run processes "$bin/test_processes_cuda"
  [[ ! -x $bin/gpuactors-tour || ${#smoke[@]} -gt 0 ]] || run tour "$bin/gpuactors-tour" --devices cuda
  [[ ! -x $bin/gpuactors-bench || ${#smoke[@]} -gt 0 ]] ||
    run bench "$bin/gpuactors-bench" --filter gpu_ --json "$logs/bench.json"
  GPUACTORS_CONFORMANCE=cuda run sanitizer compute-sanitizer --error-exitcode 9 --target-processes all \
    "$bin/test_conformance" "the library's kernels*"
fi

"$bin/gpu_verify" --add "$json"
