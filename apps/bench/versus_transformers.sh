#!/usr/bin/env bash
# Measures language models beside transformers on the CPU of this machine.
set -euo pipefail

case ${1:-} in
  -h | --help)
    cat <<'HELP'
usage: apps/bench/versus_transformers.sh [OPTION OF versus.py...]

Builds gpuactors-serve and the plugin for language models, installs PyTorch and transformers from PyPI into a virtual
environment in the build folder (about 3 GB), and measures the tokens that both write with the same model in turns.
Takes some minutes after that; nothing else should run meanwhile. The exit code is 1 where transformers is faster.

  --turns N       so often each (3)
  --texts N...    so many texts at once (1 8)

environment: GPUACTORS_BUILD_DIR (build folder)
HELP
    exit 0
    ;;
esac

source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

install_packages "${packages[@]}" python3-venv
configure
compile gpuactors-serve gpuactors_llm
python_environment transformers-venv torch transformers numpy
exec "$python" "$root/apps/bench/transformers/versus.py" --bin "$build" "$@"
