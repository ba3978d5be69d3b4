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
says '^conformance +[a-z]+ +exit code 0: All tests passed'
says '^[0-9]+ passed, 0 failed,'
grep -q '"name": "quota"' hang.json || fail "a stage has lost the rows of another one"
[[ $(tar -tzf hang-suites-logs.tgz | grep -c 'conformance.*log') -eq 2 ]] || fail "logs of suites are missing"
# Counted, not searched: a search that ends early would end tar by a signal.
[[ $(tar -tzf hang-rows-logs.tgz | grep -c 'rounding.*log') -ge 1 ]] || fail "logs of rows are missing"
[[ $(find . -type f ! -name output | wc -l) -eq 3 ]] || fail "there are other files than one table and two archives"

# What no time is left for is in the table.
verify 1 --json late.json --budget 0 --stage rows --stage suites
says '^groups +open +not run: no time left'
says '^actors +open +not run: no time left'
says '^0 passed, 0 failed, 0 stated, [0-9]+ skipped, 2[0-9] not run'

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
