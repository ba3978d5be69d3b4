#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tour.
set -euo pipefail

case ${1:-} in
  -h | --help)
    cat <<'HELP'
usage: apps/run.sh [OPTION...]

Installs missing packages (as root or with sudo), builds into build/, and runs the tour: every kind of program that
the library is for, on the devices of this machine. A second run starts at once.

options, passed to the tour:
  --only T6        one program
  --devices SPEC   devices to use, for example host:4x1GiB
  --json           print JSON
  --full           large sizes too

environment: GPUACTORS_BUILD_DIR (build folder), GPUACTORS_NO_INSTALL=1 (never install), CXX (compiler)
HELP
    exit 0
    ;;
esac

source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

install_packages "${packages[@]}"
configure
compile gpuactors-tour
say "running the tour"
exec "$build/bin/gpuactors-tour" "$@"
