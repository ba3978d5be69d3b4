# What apps/run.sh and tests/run.sh share: install what is missing, configure, build. To be sourced, not run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${GPUACTORS_BUILD_DIR:-$root/build}
jobs=$(nproc)

packages=(build-essential cmake ninja-build ccache pkg-config python3
          libcaf-dev libprotobuf-dev protobuf-compiler libssl-dev
          libopenblas-dev libsqlite3-dev libfmt-dev nlohmann-json3-dev libcli11-dev libmicrohttpd-dev catch2
          libboost-dev libcurl4-openssl-dev libsimdjson-dev libgrpc++-dev protobuf-compiler-grpc zlib1g-dev libicu-dev
          python3-venv)

say() {
  echo "==> $*"
}

fail() {
  echo "error: $*" >&2
  exit 1
}

# The system's ID and version, for example "debian 12".
distribution() {
  (ID=unknown VERSION_ID=; . /etc/os-release 2>/dev/null; echo "$ID${VERSION_ID:+ $VERSION_ID}")
}

# install_packages NAME...: installs those of them that are missing. GPUACTORS_NO_INSTALL=1 trusts that all are there.
install_packages() {
  [[ -z ${GPUACTORS_NO_INSTALL:-} ]] || return 0
  local here missing=() name as_root=() log
  here=$(distribution)
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    fail "this is $here, without apt-get: use Debian 12/13 or Ubuntu 22.04/24.04, or install what corresponds to" \
         "$* and set GPUACTORS_NO_INSTALL=1"
  fi
  for name in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || missing+=("$name")
  done
  ((${#missing[@]})) || return 0
  case $here in
    "debian 12" | "debian 13" | "ubuntu 22.04" | "ubuntu 24.04") ;;
    *) say "this is $here; Debian 12/13 are the ones that are tested, and Ubuntu 22.04/24.04 have the same packages" ;;
  esac
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "root is needed to install ${missing[*]}: run as root, or install sudo"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  log=$(mktemp)
  # A list that cannot be updated (one repository is down) need not matter: the installation decides.
  "${as_root[@]}" apt-get update -qq >"$log" 2>&1 || true
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
       apt-get install -y -qq --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    grep -E '^(E|W|Err):' "$log" | tail -n 5 >&2
    fail "apt-get could not install ${missing[*]}: is there a network, and does $here have these packages? (log: $log)"
  fi
  rm -f "$log"
}

# python_environment NAME PACKAGE...: sets `python` to that of a virtual environment in the build folder that has these
# packages from PyPI.
python_environment() {
  local folder=$build/$1
  shift
  python=$folder/bin/python
  [[ ! -e $folder/installed ]] || return 0
  say "installing $*"
  python3 -m venv --clear "$folder"
  "$python" -m pip install --quiet "$@" || fail "pip could not install $*"
  touch "$folder/installed"
}

# configure [-DOPTION=VALUE...]: prepares the build folder.
configure() {
  command -v "${CXX:-c++}" >/dev/null || fail "there is no C++ compiler ${CXX:-c++}"
  command -v cmake >/dev/null || fail "there is no cmake"
  say "configuring $build"
  local log
  # -g1 still names functions and lines in stack traces, and compiles a quarter faster than -g. Most of the time goes
  # into CAF's headers and templates, which many sources in one compilation pay for once: as many as keep all cores
  # busy. Powers of two, so that what compiles in large batches does in small ones. Who edits builds better with a
  # preset (README.md).
  local batch=$((jobs <= 2 ? 32 : jobs <= 4 ? 16 : 8))
  log=$(mktemp)
  if ! cmake -S "$root" -B "$build" -G Ninja \
       -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -g1 -DNDEBUG" \
       -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=$batch "$@" >"$log" 2>&1; then
    cat "$log" >&2
    fail "the build could not be configured: see above for what is missing"
  fi
  rm -f "$log"
}

# compile TARGET...: builds them with all cores.
compile() {
  say "building with $jobs jobs"
  cmake --build "$build" -j "$jobs" --target "$@" || fail "the build failed"
}
