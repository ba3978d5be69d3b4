#!/usr/bin/env bash
# Tests of verify.sh on the fake driver, in an empty folder. usage: verify_test.sh FOLDER-OF-THE-DRIVER
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
driver=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export LD_LIBRARY_PATH=$driver

fail() { echo "FAILED: $1" && cat output && exit 1; }

# verify CODE ARGUMENT...: runs the script, whose exit code must be that one; keeps what it prints.
verify() {
  local wanted=$1 code=0
  shift
  echo "verify.sh $*"
  "$here/verify.sh" --smoke "$@" > output 2>&1 || code=$?
  [[ $code -eq $wanted ]] || fail "exit code $code, not $wanted"
}

says() { grep -Eq -- "$1" output || fail "it does not say: $1"; }

# A row that hangs is ended, and costs no other row; the limit is long for the others, and short for a test.
FAKE_CUDA_HANG=1 verify 1 --json hang.json --stage rows --row-limit 8
says '^rounding +FAIL +exit code 124: ended after 8 s'
says '^quota +info'
says '^leavings +info'
says '^nvml +'
says '^0 passed, 1 failed,'
# What is run again replaces what was, and other stages go on with the table.
"$GPUACTORS_BUILD_DIR/bin/gpu_verify" --smoke --only rounding --json hang.json > output
says '^rounding +info'
verify 0 --json hang.json --stage suites
says '^conformance_memory +[a-z]+ +exit code 0: All tests passed'
suites=("$here"/../conformance/*_test.cpp)
for source in "${suites[@]}"; do
  says "^conformance_$(basename "$source" _test.cpp) .* exit code 0: All tests passed"
done
says '^[0-9]+ passed, 0 failed,'
grep -q '"name": "quota"' hang.json || fail "a stage has lost the rows of another one"
[[ $(tar -tzf hang-suites-logs.tgz | grep -c 'conformance.*log') -eq ${#suites[@]} ]] || fail "logs of suites are missing"
# Counted, not searched: a search that ends early would end tar by a signal.
[[ $(tar -tzf hang-rows-logs.tgz | grep -c 'rounding.*log') -ge 1 ]] || fail "logs of rows are missing"
[[ $(find . -type f ! -name output | wc -l) -eq 3 ]] || fail "there are other files than one table and two archives"

# Every measurement has rows of its own, so that what has run is not run again.
twice=$(grep -o '^ *"name": .*' hang.json | sort | uniq -d)
[[ -z $twice ]] || fail "two rows have one name: $twice"
"$GPUACTORS_BUILD_DIR/bin/gpu_verify" --settled hang.json | sort > settled
"$GPUACTORS_BUILD_DIR/bin/gpu_verify" --list | sort | comm -23 - settled > output
[[ ! -s output ]] || fail "these have run and are not in the table"

# What no time is left for is in the table.
verify 1 --json late.json --budget 0 --stage rows --stage suites
says '^groups +open +not run: no time left'
says '^actors +open +not run: no time left'
says '^0 passed, 0 failed, 0 stated, [0-9]+ skipped, [2-4][0-9] not run'

# A table that was brought along is gone on with, and what it has is not run again.
"$GPUACTORS_BUILD_DIR/bin/gpu_verify" --smoke --only quota --json late.json > output || true
verify 1 --previous late.json --json next/table.json --stage rows --open --budget 0
says '^groups +open'
! grep -q '^quota ' output || fail "what has run is run again"
grep -q '"name": "quota"' next/table.json || fail "the table that was brought along is lost"
[[ -f next/table-rows-open-logs.tgz ]] || fail "the logs are not beside the table"
verify 2 --previous nowhere.json
says 'there is no table nowhere.json'

# Libraries that the loader does not know: of Python's packages.
mkdir -p none site/nvidia/cu/lib
printf '#!/bin/sh\n' > none/ldconfig
chmod +x none/ldconfig
ln -s "$driver"/lib* site/nvidia/cu/lib
LD_LIBRARY_PATH='' PYTHONPATH=$folder/site PATH=$folder/none:$PATH verify 1 --json found.json --budget 0 --stage rows
says '^taking libcuda.so.1 from .*/site/nvidia/cu/lib$'
says '^NVIDIA Fake '

# A GPU that cannot be used leaves the reason in the table.
FAKE_CUDA_INIT=999 verify 1 --json broken.json
says 'cuInit'
grep -q 'cuInit' broken.json || fail "the reason is not in the table"

verify 2 --stage none
says 'there is no stage "none"'

# What only a real machine shows, by programs that stand in for others beside a link to the script.
mkdir -p kit/bin tools
ln -s "$here/verify.sh" kit/verify.sh
stand_in() { cat > "$1" && chmod +x "$1"; }
# Its driver is too old unless it is that of the package for that case; the measurements are small.
stand_in kit/bin/gpu_verify << 'END'
#!/bin/sh
case $LD_LIBRARY_PATH in */compat*) unset FAKE_CUDA_VERSION ;; esac
case $* in
  *"--outcome ${LOST_ROW:-none}="*) exit 1 ;;
  *"--only fractions --stated") set -- "$@" --smoke ;;
  *"--only fractions") echo "fractions  FAIL  slow" && exit 1 ;;
esac
exec "$GPUACTORS_BUILD_DIR/bin/gpu_verify" "$@"
END
# As long as there is no time limit, or not for cuBLAS.
stand_in kit/bin/test_conformance << 'END'
#!/bin/sh
echo "modules are loaded $CUDA_MODULE_LOADING"
[ "$CUDA_MODULE_LOADING" = LAZY ] || exit 124
END
# What it prints last is no text.
stand_in kit/bin/test_llm << 'END'
#!/bin/sh
printf 'a word of a model: \377\n'
END
readonly uuid=GPU-00112233-4455-6677-8899-aabbccddeeff
stand_in kit/bin/gpuactors << END
#!/bin/sh
case \${CUDA_VISIBLE_DEVICES-all} in
  all | 0 | GPU-0011*) echo '"uuid": "$uuid"' ;;
  *) echo "no CUDA device is visible" >&2 ;;
esac
END
# One row misses its bound once, one each time, and one has none.
stand_in kit/bin/gpuactors-bench << 'END'
#!/bin/sh
case $* in
  *--list*) printf '%s needs a GPU\n' gpu_once gpu_never gpu_stated && exit ;;
esac
while [ $# -gt 0 ]; do
  case $1 in --filter) name=$2 ;; --json) json=$2 ;; esac
  shift
done
bound=1 holds=true
case $name in
  gpu_once) [ -e once ] || holds=false && touch once ;;
  gpu_never) holds=false && [ "${json##*/}" = gpu_never.json ] || sleep "${SLOW_AGAIN:-0}" ;;
  gpu_stated) bound=null ;;
esac
echo "{\"bound\": $bound, \"holds\": $holds}" > "$json"
echo "$name 1 ms"
END
stand_in tools/nvidia-smi << END
#!/bin/sh
[ "\$1" != -L ] || cat /proc/\$PPID/comm >> "$folder/asked"
echo "GPU 0: NVIDIA Fake (UUID: $uuid)"
END
stand_in tools/compute-sanitizer << 'END'
#!/bin/sh
echo "========= COMPUTE-SANITIZER"
case $* in *--about) exit 0 ;; esac
echo "========= Error: Device not supported. Please refer to the \"Supported Devices\" section"
exit 1
END

# verify_kit CODE ARGUMENT...: as verify, with the stand-ins and nothing left out.
verify_kit() {
  local wanted=$1 code=0
  shift
  echo "kit/verify.sh $*"
  PATH=$folder/tools:$PATH kit/verify.sh "$@" > output 2>&1 || code=$?
  [[ $code -eq $wanted ]] || fail "exit code $code, not $wanted"
}

# runs PID: whether there is such a process, which has not ended.
runs() { grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2> /dev/null; }

# A daemon that stays until it is told to end, or for good. In the kernel's list it has the name of its script.
stand_in tools/nvidia-cuda-mps-control << 'END'
#!/bin/sh
case $* in
  -d)
    ln -sf "$(command -v sleep)" "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control"
    "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control" 60 > /dev/null 2>&1 &
    echo $! > "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
    cp "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid" mps_pid
    ;;
  *)
    [ "$(cat)" != quit ] || [ -n "$MPS_STAYS" ] || kill "$(cat "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid")"
    ;;
esac
END

unset CUDA_VISIBLE_DEVICES
verify_kit 0 --json kit.json --stage suites
says '^conformance_kernel +pass +exit code 0: modules are loaded LAZY'
says '^language_models +pass +exit code 0: a word of a model'
grep -q '"name": "language_models"' kit.json || fail "a row is lost whose text is none"
# What nothing promises is stated.
says '^fractions_8_queues +info +fractions +info .*at once'
LOST_ROW=language_models verify_kit 1 --json lost.json --stage suites
says 'the row language_models is not in the table'
verify_kit 1 --json rest.json --stage rest
# Slow is not wrong.
says '^conformance_eager +open +not run to its end in 120 s .*modules are loaded EAGER'
says '^uuids +pass'
says '^visible_index +pass'
says '^visible_other +pass'
says '^sanitizer +skip +compute-sanitizer says'
[[ $(cat asked) == timeout ]] || fail "nvidia-smi -L is not asked once with a time limit, but by: $(cat asked)"
says '^mps +'
! runs "$(cat mps_pid)" || fail "MPS's daemon was not told to end"
MPS_STAYS=1 verify_kit 1 --json stays.json --stage rest
! runs "$(cat mps_pid)" || fail "MPS's daemon that does not end is left behind"
# With devices that were chosen for the script, what cannot be compared is said, and not tried again.
CUDA_VISIBLE_DEVICES=0 verify_kit 1 --json chosen.json --stage rest
says '^uuids +skip +CUDA_VISIBLE_DEVICES is set'
says '^visible_index +skip +CUDA_VISIBLE_DEVICES is set'
CUDA_VISIBLE_DEVICES=0 verify_kit 1 --json chosen.json --stage rest --open
! grep -Eq '^(uuids|visible_)' output || fail "names are compared again"

# Of a row that misses its bound two runs more decide. What no bound says is stated.
verify_kit 1 --json bench.json --stage bench
says '^gpu_once +pass +exit code 0: gpu_once 1 ms; again: gpu_once 1 ms; again: gpu_once 1 ms'
says '^gpu_never +FAIL +gpu_never 1 ms; again: gpu_never 1 ms  '
says '^gpu_stated +info +gpu_stated 1 ms'
says '^gpu_task_warm_short_polls +info'
# What there is no time for stays as it was; what is of another build is run again, and else not.
verify_kit 1 --json bench.json --stage bench --budget 0
says '^gpu_stated +stays as it is'
says ' 0 not run$'
verify_kit 1 --json bench.json --stage bench --open
! grep -q '^running' output || fail "what has run is run again"
sed -i 's/"revision": "[^"]*"/"revision": "another"/' bench.json
verify_kit 1 --json bench.json --stage suites --budget 0
says '^4 of them with another GPU or build'
# What misses its bound when there is no time to run it again is not settled.
SLOW_AGAIN=60 verify_kit 1 --json hurry.json --stage bench --budget 25
says '^gpu_never +open +gpu_never 1 ms; no time left for the runs that decide'
verify_kit 1 --json bench.json --stage bench --open
says '^running gpu_stated'
! grep -q 'another GPU' output || fail "rows of another build are left"

# Libraries in folders of containers; the package for old drivers comes last, and first where the driver is too old.
mkdir -p local/nvidia/lib local/cuda-1/compat
touch local/nvidia/lib/libnvidia-ml.so.1
ln -s "$driver"/libcuda.so.1 local/cuda-1/compat
export GPUACTORS_CUDA_ROOT=$folder/local
PATH=$folder/none:$PATH verify_kit 1 --json local.json --budget 0 --stage rows
says '^taking libnvidia-ml.so.1 from .*/local/nvidia/lib$'
! grep -q 'taking libcuda.so.1' output || fail "a driver is taken although there is one"
FAKE_CUDA_VERSION=11080 verify_kit 1 --json old.json --budget 0 --stage rows
says '^taking libcuda.so.1 from .*/local/cuda-1/compat: the machine.s driver is too old'
says '^NVIDIA Fake '
rm local/cuda-1/compat/libcuda.so.1
FAKE_CUDA_VERSION=11080 verify_kit 1 --json older.json
says 'the GPU cannot be used: the CUDA driver is too old'
