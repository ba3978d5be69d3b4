#!/usr/bin/env bash
# Gets digits.csv.gz, 1797 pictures of hand-written digits (64 numbers and the label), for gpuactors-train:
#   fetch_digits.sh [FILE]
# It is in Debian's and Ubuntu's package python3-sklearn, which is downloaded and unpacked, not installed.
set -euo pipefail

target=${1:-digits.csv.gz}
fail() {
  echo "fetch_digits.sh: $*" >&2
  exit 1
}

for program in apt-get dpkg; do
  command -v "$program" >/dev/null || fail "there is no $program: this works on Debian and Ubuntu only"
done
target=$(realpath -m -- "$target")
[[ -d $(dirname "$target") ]] || fail "there is no folder $(dirname "$target")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# Where root starts it, apt downloads as a user of its own, who has to get into the folder.
chmod 755 .
apt-get download python3-sklearn >log 2>&1 || { tail -n 3 log >&2; fail "apt-get cannot download python3-sklearn"; }
dpkg -x python3-sklearn_*.deb unpacked
found=$(find unpacked -name digits.csv.gz -print -quit)
[[ -n $found ]] || fail "python3-sklearn has no digits.csv.gz any more"
mv -- "$found" "$target"
echo "$target"
