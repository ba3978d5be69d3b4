#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test.
set -euo pipefail

options=()
selection=()
for argument in "$@"; do
  case $argument in
    -h | --help)
      cat <<'HELP'
usage: tests/run.sh [-DOPTION=VALUE...] [CTEST OPTION...]

Installs missing packages (as root or with sudo), builds into build/, and runs every test. A second run builds what has
changed. Ends with ctest's summary and exit code.

  -DGPUACTORS_WERROR=ON      an option for CMake; it stays until another value is given
  -R NAME, -L LABEL, ...     options for ctest: only some of the tests

environment: GPUACTORS_BUILD_DIR (build folder), GPUACTORS_NO_INSTALL=1 (never install), CXX (compiler)
HELP
      exit 0
      ;;
    -D*) options+=("$argument") ;;
    *) selection+=("$argument") ;;
  esac
done

source "$(dirname "${BASH_SOURCE[0]}")/../apps/setup.sh"

# The version that decides how sources are formatted; Debian 13 has none.
case $(distribution) in
  "debian 12" | "ubuntu 22.04" | "ubuntu 24.04") packages+=(clang-format-14) ;;
esac
[[ ${options[*]:-} != *CMAKE_CXX_CLANG_TIDY* ]] || packages+=(clang-tidy)

# The version that the plugin for TorchScript is tested with; elsewhere it is left out unless it is installed.
[[ $(distribution) != "debian 12" || ${options[*]:-} == *GPUACTORS_TORCH=OFF* ]] || packages+=(libtorch-dev)

packages+=(valgrind) # counts instructions: tests/bench/instructions.py

install_packages "${packages[@]}"
configure -DGPUACTORS_BUILD_TESTS=ON "${options[@]}"
compile all gpuactors_headers
say "running the tests"
# Two more than there are cores: many of them wait most of the time. Those that time others run alone.
exec ctest --test-dir "$build" --output-on-failure -j $((jobs + 2)) "${selection[@]}"
