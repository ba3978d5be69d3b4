#!/usr/bin/env bash
# Measures gpuactors beside Ray on this machine, and writes the table of docs/performance.md.
set -euo pipefail

case ${1:-} in
  -h | --help)
    cat <<'HELP'
usage: apps/bench/versus_ray.sh [OPTION OF versus.py...]

Builds gpuactors-bench, installs Ray from PyPI into a virtual environment in the build folder, runs the rows of Ray's
microbenchmark, those of its C++ API and ours in turns, and writes the table of docs/performance.md. Takes about half an
hour; nothing else should run meanwhile.

  --turns N       so often each (3, the fewest for the document)
  --filter TEXT   only rows whose name contains TEXT; the document is left alone then
  --document ''   leave the document alone
  --json FILE     machine, our rows, floors and Ray's in one file; --svg FILE   the ratios as a picture

environment: GPUACTORS_BUILD_DIR (build folder), RAY_VERSION (a version of Ray; the newest without it)
HELP
    exit 0
    ;;
esac

source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

install_packages "${packages[@]}" python3-venv
configure
compile gpuactors-bench
python_environment ray-venv "ray[client]${RAY_VERSION:+==$RAY_VERSION}" numpy
"$python" -m pip install --quiet "ray[cpp]${RAY_VERSION:+==$RAY_VERSION}" ||
  say "there is no wheel ray-cpp for this Python: the rows of Ray's C++ API are left out"
# A GPU's rows need PyTorch, which is large: apps/bench/ray/gpu_rows.py runs with a Python that has it.
exec python3 "$root/apps/bench/ray/versus.py" --bench "$build/bin/gpuactors-bench" --python "$python" \
  --document "$root/docs/performance.md" "$@"
