#!/usr/bin/env bash
# Runs on a machine with a GPU what nobody can know without one.
set -uo pipefail

readonly no_gpu=77
# Seconds: between ending what takes too long and killing it; below which nothing more is started.
readonly grace=5 least=5

usage() {
  cat <<'HELP'
usage: verify.sh [--json FILE] [--previous FILE] [--stage rows|suites|bench|rest]... [--open] [--budget SECONDS]
                 [--row-limit SECONDS] [--suite-limit SECONDS] [--logs FOLDER] [--quick] [--smoke]

Verifies on the first visible GPU what docs/gpu-verification.md lists: everything that gpu_verify measures, the
conformance suite, tensors between processes, the tour, memory errors (with compute-sanitizer, if it is there) and the
benchmark's rows for GPUs. Prints one table; --json writes the same for programs. Needs a driver and CUDA's libraries,
no toolkit. Changes none of the GPU's settings.

  --json FILE     the table as JSON (default: gpu-verification.json); what is printed comes in a .tgz beside it
  --previous FILE a table of an earlier run, which that of --json begins with
  --open          only what such a table does not have yet, has as "not run", or has of another GPU or build
  --stage NAME    only a part, which goes on with the table of --json: rows (the measurements), suites (conformance,
                  actors, processes), bench (the benchmark), rest (names, tour, MPS, sanitizer); may be repeated
  --budget SECONDS       ends by then; what does not fit any more is in the table as "not run"
  --row-limit SECONDS    after which a measurement is ended (default: 60)
  --suite-limit SECONDS  after which any other program is (default: 120)
  --logs FOLDER   keeps what is printed there too
  --quick         the measurements only, as a new table
  --smoke         small sizes, nothing judged: to see that this script works

What the loader does not find is looked for in Python's packages and in the folders cuda* and nvidia of
GPUACTORS_CUDA_ROOT (default: /usr/local).

Each measurement is a process of its own, as is each suite: what one loses costs no row of another.

exit code: 0 all targets met, 1 some not or not run, or the GPU cannot be used, 2 bad usage, 77 there is no GPU
HELP
}

fail() { echo "verify.sh: $1" >&2 && exit 2; }

json=gpu-verification.json
logs='' budget='' row_limit=60 suite_limit=120
previous='' open_only=''
stages=() smoke=() goes_on='' mps_folder=''
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --quick) stages=(rows) && goes_on='' && shift ;;
    --smoke) smoke=(--smoke) && shift ;;
    --open) open_only=1 && goes_on=1 && shift ;;
    --json | --previous | --logs | --stage | --budget | --row-limit | --suite-limit)
      [[ $# -ge 2 ]] || fail "$1 needs a value"
      case $1 in
        --json) json=$2 ;;
        --previous) previous=$2 && goes_on=1 ;;
        --logs) logs=$2 ;;
        --stage)
          [[ $2 == rows || $2 == suites || $2 == bench || $2 == rest ]] || fail "there is no stage \"$2\"; see --help"
          stages+=("$2") && goes_on=1
          ;;
        *)
          [[ $2 =~ ^[0-9]+$ ]] || fail "$1 is a number of seconds, not \"$2\""
          case $1 in
            --budget) budget=$2 ;;
            --row-limit) row_limit=$2 ;;
            --suite-limit) suite_limit=$2 ;;
          esac
          ;;
      esac
      shift 2
      ;;
    *) fail "\"$1\" is not understood; see --help" ;;
  esac
done
[[ -z $previous || -f $previous ]] || fail "there is no table $previous"
[[ ${#stages[@]} -gt 0 ]] || stages=(rows suites bench rest)
packed=${json%.json}${goes_on:+-$(IFS=- && echo "${stages[*]}")}${open_only:+-open}-logs.tgz

# In the bundle the programs lie beside this script, in a build where the build folder is.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$here/bin
[[ -d $bin ]] || bin=${GPUACTORS_BUILD_DIR:-$here/../../build}/bin
[[ -x $bin/gpu_verify ]] || fail "$bin/gpu_verify is not there: build the target gpu_verify, or unpack the whole bundle"

# loader_finds FILE: whether programs find the library without being told where.
loader_finds() {
  local folder
  while IFS= read -r -d : folder; do
    [[ -z $folder || ! -e $folder/$1 ]] || return 0
  done <<< "${LD_LIBRARY_PATH:-}:"
  # To its end: a search that ends early would end ldconfig by a signal, and so say no.
  PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2> /dev/null | grep -F "$1 " > /dev/null
}

readonly root=${GPUACTORS_CUDA_ROOT:-/usr/local}

# Driver, CUDA's libraries and tools where containers and Python's packages have them, if nothing else is set up.
find_cuda() {
  local name folder places
  shopt -s nullglob
  places=("$root"/nvidia/{lib64,lib} "$root"/cuda/lib64 "$root"/cuda-*/lib64 "$root"/cuda*/targets/*/lib)
  while IFS= read -r folder; do
    [[ -z $folder ]] || places+=("$folder"/nvidia/*/lib)
  done < <(python3 -c 'import sys; print("\n".join(sys.path))' 2> /dev/null)
  # Last: half a driver, for machines whose own one is older.
  places+=("$root"/cuda*/compat)
  for name in $("$bin/gpu_verify" --libraries); do
    ! loader_finds "$name" || continue
    for folder in "${places[@]}"; do
      [[ -e $folder/$name ]] || continue
      echo "taking $name from $folder"
      export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
      break
    done
  done
  for folder in "$root"/nvidia/bin "$root"/cuda/bin "$root"/cuda-*/bin; do PATH=$PATH:$folder; done
  shopt -u nullglob
}

# Sets `about`, what the GPU is or why it cannot be used, and `probe`, the exit code that says so.
look() {
  about=$(timeout -k "$grace" "$suite_limit" "$bin/gpu_verify" --about 2>&1)
  probe=$?
}

# Where the machine's driver is older than these programs and there is CUDA's package for that case: with its half of a
# driver, if that works here.
try_compat() {
  local folder without=${LD_LIBRARY_PATH:-} why=$about code=$probe
  for folder in "$root"/cuda*/compat; do
    [[ -e $folder/libcuda.so.1 ]] || continue
    export LD_LIBRARY_PATH=$folder${without:+:$without}
    look
    if [[ $probe -eq 0 ]]; then
      echo "taking libcuda.so.1 from $folder: the machine's driver is too old"
      return
    fi
  done
  export LD_LIBRARY_PATH=$without
  about=$why probe=$code
}

# The bundle's libraries may need a younger glibc than this machine has, which then has its own of GCC's.
if ! "$bin/gpu_verify" --list > /dev/null 2>&1 && [[ -d $here/lib ]]; then
  mkdir -p "$here/lib/aside" && mv "$here"/lib/lib{stdc++,gcc_s}.so* "$here/lib/aside"
  echo "taking GCC's libraries from this machine: those of the bundle do not load"
fi
"$bin/gpu_verify" --list > /dev/null || fail "the programs do not start here"

find_cuda
look
[[ $probe -eq 0 || $about != *'driver is too old'* ]] || try_compat
printf '%s\n' "$about"
if [[ $probe -eq $no_gpu ]]; then
  echo "verify.sh: nothing was verified" >&2
  exit "$no_gpu"
fi
[[ -n $goes_on ]] || rm -f "$json"
if [[ $probe -ne 0 ]]; then
  # Why is all that can be known of this machine: it is kept where the results would be.
  mkdir -p "$(dirname "$json")"
  "$bin/gpu_verify" --add "$json" --outcome "about=$probe:$(tail -n 1 <<< "$about")"
  exit "$probe"
fi

kept=$logs
[[ -n $kept ]] || logs=$(mktemp -d) || exit 2
mkdir -p "$logs" "$(dirname "$json")" || exit 2

[[ -z $previous || $previous -ef $json ]] || cp "$previous" "$json" || exit 2
pack() { tar -czf "$packed" -C "$logs" . || echo "verify.sh: $packed could not be written" >&2; }

# However this ends.
finish() {
  end_mps
  note_faults
  pack
  [[ -n $kept ]] || rm -rf "$logs"
}
trap finish EXIT
trap 'exit 1' INT TERM

# What else there is to know of this machine, for whoever reads the rows later.
note_machine() {
  env | grep -E '^(CUDA|NVIDIA|NCCL|LD_LIBRARY_PATH|GPUACTORS)' > "$logs/environment.log"
  ! command -v nvidia-smi > /dev/null || timeout -k "$grace" 30 nvidia-smi -q > "$logs/nvidia-smi.log" 2>&1
}

# What the kernel's log has of the GPU's faults, where it may be read.
note_faults() { dmesg 2> /dev/null | grep -E 'NVRM|Xid' > "$logs/kernel.log" || rm -f "$logs/kernel.log"; }

# add NAME=CODE:TEXT: a row of the table.
lost=0
add() {
  "$bin/gpu_verify" --add "$json" --outcome "$1" && return
  echo "verify.sh: the row ${1%%=*} is not in the table" >&2
  lost=1
}

# wanted NAME: whether it is to be run: with --open not what the table has already.
wanted() { ! grep -Fxq -- "$1" <<< "$settled"; }

# within SECONDS: sets `limit` to them, or to what the budget leaves; fails when it leaves too little.
within() {
  limit=$1
  [[ -n $budget ]] || return 0
  local left=$((budget - SECONDS - grace))
  ((left >= least)) || return 1
  ((limit <= left)) || limit=$left
}

# tell NAME CODE WANTED TEXT: the row of a program that had `limit` of the seconds that it could have had.
tell() {
  if [[ $2 -ne 124 && $2 -ne 137 ]]; then
    add "$1=$2:$4"
  elif ((limit < $3)); then
    add "$1=late:not run to its end: no time left after $limit s; $4"
  else
    add "$1=$2:ended after $limit s; $4"
  fi
}

# As tell, for what is no promise: what was measured is stated.
tell_stated() {
  if [[ $2 -eq 0 ]]; then add "$1=stated:$4"; else tell "$@"; fi
}

# As tell, for what may need longer than it has, and nothing is wrong.
tell_slow() {
  if [[ $2 -eq 124 || $2 -eq 137 ]]; then
    add "$1=late:not run to its end in $limit s (--suite-limit gives it more); $4"
  else
    tell "$@"
  fi
}

# As tell, for the example whose workers learn a line: that it ends does not say that they did.
tell_learnt() {
  if [[ $2 -eq 0 ]] && ! { grep -Fq 'the group is over: unavailable' "$logs/$1.log" &&
    [[ $(grep -Fc 'a worker of 2: y = 2.000 x + -1.000' "$logs/$1.log") -eq 2 ]]; }; then
    add "$1=1:its workers have not learnt the line: $4"
  else
    tell "$@"
  fi
}

# As tell, for compute-sanitizer: it says no in some containers, and only once a context is made.
tell_sanitizer() {
  if grep -qi 'device not supported' "$logs/$1.log"; then
    add "$1=skip:compute-sanitizer says that it does not support this device here"
  else
    tell "$@"
  fi
}

last_line() { grep -av '^[[:space:]]*$' "$1" | tail -n 1; }

# run NAME [VARIABLE=VALUE]... PROGRAM ARGUMENT...: keeps what it prints, adds a row by its exit code and its last line,
# by `tell` or what `teller` names.
run() {
  local name=$1 word program=''
  shift
  for word; do
    [[ $word == *=* ]] || { program=$word && break; }
  done
  if ! wanted "$name"; then
    return
  elif ! command -v "$program" > /dev/null; then
    add "$name=skip"
  elif ! within "$suite_limit"; then
    add "$name=late"
  else
    echo "running $name"
    timeout -k "$grace" "$limit" env "$@" > "$logs/$name.log" 2>&1
    "${teller:-tell}" "$name" $? "$suite_limit" "$(last_line "$logs/$name.log")"
    pack
  fi
}

# uuids NAME [VISIBLE]: the GPUs that gpuactors shows, all or with such a CUDA_VISIBLE_DEVICES, in one line. What it
# complains of is in NAME.log.
uuids() {
  local shown=()
  [[ $# -eq 1 ]] || shown=(env "CUDA_VISIBLE_DEVICES=$2")
  "${shown[@]}" timeout -k "$grace" "$limit" "$bin/gpuactors" devices --devices cuda --json 2> "$logs/$1.log" |
    grep -o '"\(GPU\|MIG\)-[0-9a-f-]*"' | tr -d '"' | paste -sd ' '
}

# compare_shown NAME WHAT WANTED VISIBLE: a row that says whether the GPUs that gpuactors shows are those.
compare_shown() {
  local name=$1 what=$2 wanted=$3
  shift 3
  if ! wanted "$name"; then return; fi
  if within 30; then compare "$name" "$what" "$wanted" "$(uuids "$name" "$@")"; else add "$name=late"; fi
}

# compare_none NAME WHAT VISIBLE: the row that says whether nothing is shown with such a CUDA_VISIBLE_DEVICES, and that
# this is said: a program that fails shows nothing, too.
compare_none() {
  if ! wanted "$1"; then return; fi
  if ! within 30; then add "$1=late" && return; fi
  local shown said
  shown=$(uuids "$1" "$3")
  said=$(last_line "$logs/$1.log")
  if [[ -z $shown && $said != *CUDA_ERROR_NO_DEVICE* && $said != *"no CUDA device is visible"* ]]; then
    add "$1=1:$2: gpuactors devices says: $said"
  else
    compare "$1" "$2" "" "$shown"
  fi
}

# compare NAME WHAT WANTED GOT: a row that says whether two texts are the same.
compare() {
  if [[ $3 == "$4" ]]; then add "$1=0:$2: ${4:-none}"; else add "$1=1:$2: ${4:-none}, not ${3:-none}"; fi
}

# leave NAME OUTCOME: a row that cannot be told now; what is known of it stays.
leave() { if wanted "$1"; then add "$1=$2"; fi; }

# leave_visible OUTCOME: the rows of CUDA_VISIBLE_DEVICES that cannot be told.
leave_visible() {
  local name
  for name in visible_uuid visible_none visible_other visible_beyond visible_index; do leave "$name" "$1"; done
  [[ ${#smoke[@]} -gt 0 ]] || leave visible_start "$1"
}

# What CUDA's own tool calls the GPUs, and what each form of CUDA_VISIBLE_DEVICES gives.
check_names() {
  local all first listed theirs code
  if ! wanted uuids && ! wanted visible_uuid && ! wanted visible_none && ! wanted visible_other &&
    ! wanted visible_beyond && ! wanted visible_index && ! wanted visible_start; then
    return
  elif ! within 30; then
    leave uuids late
    leave_visible late
    return
  fi
  all=$(uuids uuids)
  first=${all%% *}
  if [[ -z $first ]]; then
    add "uuids=1:gpuactors shows no UUID: $(last_line "$logs/uuids.log")"
    leave_visible "skip:gpuactors shows no UUID"
    return
  fi
  if ! command -v nvidia-smi > /dev/null; then
    add "uuids=skip:there is no nvidia-smi"
  elif [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
    add "uuids=skip:CUDA_VISIBLE_DEVICES is set, and nvidia-smi shows all GPUs"
  else
    listed=$(timeout -k "$grace" "$limit" nvidia-smi -L 2>&1)
    code=$?
    if [[ $code -ne 0 ]]; then
      tell uuids "$code" 30 "nvidia-smi -L: $(tail -n 1 <<< "$listed")"
    else
      # Of a divided GPU its parts are what is offered.
      theirs=$(grep -o 'MIG-[0-9a-f-]*' <<< "$listed" || grep -o 'GPU-[0-9a-f-]*' <<< "$listed")
      compare uuids "as nvidia-smi -L says" "$(sort <<< "$theirs")" "$(tr ' ' '\n' <<< "$all" | sort)"
    fi
  fi
  compare_shown visible_uuid "CUDA_VISIBLE_DEVICES with a UUID" "$first" "$first"
  compare_none visible_none "CUDA_VISIBLE_DEVICES that is empty" ""
  # Where there is one GPU, who does not heed the variable shows it in any other case.
  compare_none visible_other "CUDA_VISIBLE_DEVICES with the UUID of no GPU" GPU-00000000-0000-0000-0000-000000000000
  compare_none visible_beyond "CUDA_VISIBLE_DEVICES with the index of no GPU" 63
  # An index counts from what this script was shown, if that is all.
  if [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
    add "visible_index=skip:CUDA_VISIBLE_DEVICES is set, and an index counts all GPUs"
  else
    compare_shown visible_index "CUDA_VISIBLE_DEVICES with an index" "$first" 0
  fi
  # The driver for tests knows no abbreviations.
  [[ ${#smoke[@]} -gt 0 ]] ||
    compare_shown visible_start "CUDA_VISIBLE_DEVICES with the start of a UUID" "$first" "${first:0:16}"
}

stage_rows() {
  local name code
  for name in $("$bin/gpu_verify" --list); do
    wanted "$name" || continue
    if ! within "$row_limit"; then
      add "$name=late"
      continue
    fi
    timeout -k "$grace" "$limit" "$bin/gpu_verify" --only "$name" --json "$json" "${smoke[@]}" > "$logs/$name.log" 2>&1
    code=$?
    cat "$logs/$name.log"
    # Of what it measured it has told itself.
    ((code <= 1)) || tell "$name" "$code" "$row_limit" "$(last_line "$logs/$name.log")"
    pack
  done
}

# full: whether this is no smoke test. The tests of the tree run the suites of processes anyway, and alone.
full() { [[ ${#smoke[@]} -eq 0 ]]; }

# Those of the conformance suite: each source is a row, in a process of its own. A test whose context is lost, or that
# hangs, loses the rest of its source only.
readonly conformance=(kernel memory view life gemm float16 order block_kernel layer graph)

stage_suites() {
  local part
  for part in "${conformance[@]}"; do
    run "conformance_$part" CUDA_MODULE_LOADING=LAZY GPUACTORS_CONFORMANCE=cuda "$bin/test_conformance" \
      --filenames-as-tags "[#${part}_test]" --durations yes
  done
  # With as many hardware queues as the driver has by itself, fewer than streams: whether it takes the number from the
  # environment.
  ! full || teller=tell_stated run fractions_8_queues CUDA_DEVICE_MAX_CONNECTIONS=8 \
    "$bin/gpu_verify" --only fractions --stated
  run actors "$bin/gpu_actors" "${smoke[@]}"
  run overlap "$bin/gpu_actors" --overlap "${smoke[@]}"
  ! full || teller=tell_learnt run data_parallel "$bin/example_data_parallel" --devices cuda
  # In a build, the program knows where its models are.
  local models=()
  [[ ! -d $here/llm ]] || models=("LLM_TEST_DATA=$here/llm")
  run language_models GPUACTORS_TEST_DEVICES=cuda "${models[@]}" "$bin/test_llm" --durations yes
  ! full || run processes "$bin/test_processes_cuda" "[gpu],[chip]" --durations yes
}

# bench_row NAME FILE: a row of the benchmark, kept as FILE.json and FILE.log; sets `code`, and `line` in words.
bench_row() {
  local turns=5
  # Those that take a second a turn have no bound.
  [[ $1 == *_cold || $1 == *_spawn* || $1 == *_kill_* ]] || turns=15
  timeout -k "$grace" "$limit" "$bin/gpuactors-bench" --filter "$1" --repeat "$turns" --json "$logs/$2.json" \
    "${smoke[@]}" > "$logs/$2.log" 2>&1
  code=$?
  line=$(grep "^$1 " "$logs/$2.log" | tr -s ' ' | head -n 1)
  pack
}

# has FILE PATTERN: whether a row of the benchmark says so.
has() { grep -Eq -- "$2" "$logs/$1.json" 2> /dev/null; }

# judge_bench NAME: the row of a benchmark that has run. One that misses its bound is a failure, which the program, for
# whom machines differ, does not say by its exit code. It may have been in the way of something else: then two of three
# runs decide.
judge_bench() {
  local all=$line held=0 missed=1
  if [[ $code -ne 0 ]] || ! full; then
    tell "$1" "$code" "$row_limit" "${line:-$(last_line "$logs/$1.log")}"
    return
  elif has "$1" '"bound": ?null'; then
    add "$1=stated:$line"
    return
  elif ! has "$1" '"holds": ?false'; then
    tell "$1" "$code" "$row_limit" "$line"
    return
  fi
  while ((held < 2 && missed < 2)); do
    if within "$row_limit"; then
      bench_row "$1" "$1-again-$((held + missed))"
    else
      code=124 limit=0
    fi
    if [[ $code -eq 124 || $code -eq 137 ]] && ((limit < row_limit)); then
      add "$1=late:$all; no time left for the runs that decide"
      return
    fi
    all+="; again: ${line:-$(last_line "$logs/$1-again-$((held + missed)).log")}"
    if [[ $code -eq 0 ]] && ! has "$1-again-$((held + missed))" '"holds": ?false'; then
      held=$((held + 1))
    else
      missed=$((missed + 1))
    fi
  done
  if ((held == 2)); then add "$1=0:$all"; else add "$1=missed:$all"; fi
}

# Each row of the benchmark is a process of its own too.
stage_bench() {
  local name names code line
  [[ -x $bin/gpuactors-bench ]] || return
  names=$("$bin/gpuactors-bench" --list --filter gpu_ "${smoke[@]}" 2> "$logs/bench.log" |
    awk '/ needs a GPU$/ { print $1 }')
  if [[ -z $names ]]; then
    add "bench=1:gpuactors-bench lists no row that needs a GPU: $(last_line "$logs/bench.log")"
    return
  fi
  for name in $names; do
    wanted "$name" || continue
    if ! within "$row_limit"; then
      add "$name=late"
      continue
    fi
    echo "running $name"
    bench_row "$name" "$name"
    judge_bench "$name"
  done
  # What long polls are worth to a task.
  ! full || teller=tell_stated run gpu_task_warm_short_polls GPUACTORS_POLLING=short \
    "$bin/gpuactors-bench" --filter gpu_task_warm --repeat 15 --json "$logs/gpu_task_warm_short_polls.json"
}

# With MPS's daemon of this script, if it runs.
mps() { CUDA_MPS_PIPE_DIRECTORY=$mps_folder CUDA_MPS_LOG_DIRECTORY=$mps_folder timeout -k "$grace" 10 "$@"; }

# gone PID: whether the process has ended, after a moment.
gone() {
  local i
  for ((i = 0; i < 20; ++i)); do
    runs "$1" || return 0
    sleep 0.1
  done
  return 1
}

# runs PID: whether there is such a process, which has not ended.
runs() { grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2> /dev/null; }

# Ends that daemon and its servers, by force if need be: what goes on without it would meet them.
end_mps() {
  [[ -n $mps_folder ]] || return 0
  local pid pids
  pids=$(cat "$mps_folder/nvidia-cuda-mps-control.pid" 2> /dev/null)
  pids+=" $(mps nvidia-cuda-mps-control <<< get_server_list 2> /dev/null)"
  mps nvidia-cuda-mps-control <<< quit >> "$logs/mps_daemon.log" 2>&1
  for pid in $pids; do
    if [[ $pid =~ ^[0-9]+$ && $(cat "/proc/$pid/comm" 2> /dev/null) == nvidia-cuda-mps* ]] && ! gone "$pid"; then
      kill -9 "$pid"
    fi
  done
  cat "$mps_folder"/*.log >> "$logs/mps_daemon.log" 2> /dev/null
  rm -rf "$mps_folder"
  mps_folder=''
}

# Isolated workers under MPS, with a daemon of its own that ends with the row. It changes no setting of the GPU.
check_mps() {
  local code
  if ! wanted mps; then
    return
  elif ! command -v nvidia-cuda-mps-control > /dev/null; then
    add "mps=skip:there is no nvidia-cuda-mps-control"
    return
  elif ! within 30; then
    add "mps=late"
    return
  fi
  if ! mps_folder=$(mktemp -d); then
    add "mps=skip:there is no folder for its daemon"
    return
  fi
  mps nvidia-cuda-mps-control -d > "$logs/mps_daemon.log" 2>&1
  code=$?
  if [[ $code -eq 0 ]]; then
    run mps "CUDA_MPS_PIPE_DIRECTORY=$mps_folder" "$bin/test_processes_cuda" "[mps]" --durations yes
  else
    add "mps=$([[ $code -eq 124 ]] && echo late || echo skip):its daemon does not start: $(last_line "$logs/mps_daemon.log")"
  fi
  end_mps
}

stage_rest() {
  run devices "$bin/gpuactors" devices --devices cuda --json
  [[ ! -x $bin/gpuactors ]] || check_names
  ! full || run tour "$bin/gpuactors-tour" --devices cuda
  ! full || check_mps
  # There the driver loads all of cuBLAS, maybe for each green context, which may take too long; but only so no kernel
  # is loaded when it is first launched, perhaps behind one that waits for it.
  ! full || teller=tell_slow run conformance_eager CUDA_MODULE_LOADING=EAGER GPUACTORS_CONFORMANCE=cuda \
    "$bin/test_conformance" --durations yes
  # Last, for it takes longest. Errors of memory, not of calls: some calls are made to see whether the driver takes
  # them.
  teller=tell_sanitizer run sanitizer GPUACTORS_CONFORMANCE=cuda compute-sanitizer --error-exitcode 9 \
    --report-api-errors no --target-processes all "$bin/test_conformance" "the library's kernels*"
}

# While somebody has the GPU open, the driver does not start it anew for each of the many processes, which may take
# seconds where its persistence is off.
for device in /dev/nvidia[0-9]*; do
  # shellcheck disable=SC2034 # held is open as long as this runs
  [[ ! -r $device ]] || exec {held}< "$device" || true
done
# What the table is about from now on: its rows of another GPU, or of another build, have not run here.
timeout -k "$grace" "$suite_limit" "$bin/gpu_verify" --about "${smoke[@]}" --json "$json" > /dev/null || exit 1
settled=''
[[ -z $open_only ]] || settled=$("$bin/gpu_verify" --settled "$json") || exit 2
note_machine
# Packed again and again: what hangs in the driver cannot be killed, and where a machine is taken away, nothing else
# comes back.
for stage in "${stages[@]}"; do "stage_$stage"; pack; done
"$bin/gpu_verify" --add "$json"
code=$?
exit $((code != 0 ? code : lost))
