#!/usr/bin/env bash
# Measures training beside PyTorch on the CPU of this machine.
set -euo pipefail

case ${1:-} in
  -h | --help)
    cat <<'HELP'
usage: apps/bench/versus_torch.sh [OPTION OF versus.py...]

Builds gpuactors-bench, installs PyTorch from PyPI into a virtual environment in the build folder (about 3 GB), and
measures epochs of the same training by both in turns. Takes a minute after that; nothing else should run meanwhile. The
exit code is 1 where PyTorch is faster.

  --turns N   so often each (5)

environment: GPUACTORS_BUILD_DIR (build folder), TORCH_VERSION (a version of PyTorch; the newest without it)
HELP
    exit 0
    ;;
esac

source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

install_packages "${packages[@]}" python3-venv
configure
compile gpuactors-bench
python_environment torch-venv "torch${TORCH_VERSION:+==$TORCH_VERSION}" numpy
exec "$python" "$root/apps/bench/torch/versus.py" --bench "$build/bin/gpuactors-bench" "$@"
