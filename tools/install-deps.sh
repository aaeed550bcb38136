#!/usr/bin/env bash
# Installs the missing compilers and libraries (Debian 12+, Ubuntu 24.04+).
#
#   tools/install-deps.sh [program|test|ci]
#
# - program: the requirements of building `millrace`, with the client libraries of all sinks of the
#   streamer
# - test (default): also those of the tests
# - ci: also the linters, a clang with libFuzzer, a browser and the TypeScript compiler for the page
#   if the distribution has them, and the wheels of RMM by pip
#
# No server is started, neither now nor at boot: redis-tools contains the program of one. If nothing
# is missing, the script does nothing, and needs neither root nor a network. It never installs CUDA,
# and uses an existing toolkit.
set -euo pipefail

# Each sink of the streamer names the Debian packages of its client libraries.
mapfile -t clients < <(sed -nE 's/.*PACKAGE ([^ )]+).*/\1/p' \
  "$(dirname "${BASH_SOURCE[0]}")"/../streamer/src/sink/*/client.cmake)
program=(g++ cmake ninja-build ccache libspdlog-dev libfmt-dev libcli11-dev nlohmann-json3-dev zlib1g-dev
  libopenblas-dev libxxhash-dev "${clients[@]}")
test=("${program[@]}" pkg-config catch2 librapidcheck-dev libbenchmark-dev libopenmpi-dev openmpi-bin redis-tools python3)

# An existing tool counts, whatever its origin.
is_installed() {
  case "$1" in
    ninja-build) command -v ninja >/dev/null && return ;;
    redis-tools) command -v redis-server redis-check-rdb >/dev/null && return ;;
    node-typescript) command -v tsc >/dev/null && return ;;
    g++ | cmake | ccache | pkg-config | python3 | shellcheck | doxygen | esbuild | chromium | clang-*) command -v "$1" >/dev/null && return ;;
  esac
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing_of() {
  local package
  for package in "$@"; do
    is_installed "$package" || printf '%s\n' "$package"
  done
}

# Runs a command as root, or prints what the administrator must run.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    sudo "$@"
  else
    cat >&2 <<TEXT
install-deps: packages are missing, and this is neither root nor may it use sudo.
Have an administrator run:  apt-get install --no-install-recommends ${missing[*]}
TEXT
    exit 1
  fi
}

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"; }

install_missing() {
  mapfile -t missing < <(missing_of "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! command -v apt-get >/dev/null; then
    echo "install-deps: no apt-get here; if the build stops, install what Debian calls: ${missing[*]}" >&2
    return 0
  fi
  echo "Installing: ${missing[*]}"
  apt update
  apt install -y --no-install-recommends "${missing[@]}" >/dev/null
}

# Installs the packages that the distribution has.
install_offered() {
  local package
  for package in "$@"; do
    is_installed "$package" && continue
    apt-cache show "$package" >/dev/null 2>&1 && install_missing "$package"
  done
  return 0
}

# esbuild bundles the viewer of `--html`. If it cannot be installed, the program is built without
# the viewer.
install_program() {
  install_missing "$@"
  if is_installed esbuild || ! command -v apt-get >/dev/null; then return; fi
  missing=(esbuild)
  ({ [ -n "$(apt-cache policy esbuild)" ] || apt update; } && install_offered esbuild && is_installed esbuild) ||
    echo "install-deps: no esbuild, so that the program cannot write pages (--html)" >&2
}

# Installs the newest clang that compiles C++20 and has libFuzzer. Formatting and linting use
# version 14.
install_linters() {
  local version
  install_offered shellcheck clang-format-14 clang-tidy-14 doxygen
  for version in 19 18 17 16; do
    mapfile -t missing < <(missing_of "clang-$version" "libclang-rt-$version-dev")
    [ ${#missing[@]} -gt 0 ] || return 0
  done
  for version in 19 18 17 16; do
    apt-cache show "clang-$version" "libclang-rt-$version-dev" >/dev/null 2>&1 || continue
    install_missing "clang-$version" "libclang-rt-$version-dev"
    return
  done
}

# Fetches the wheels of RMM for its example into build/rmm: 5 MB. Nothing in them is run.
fetch_rmm() {
  local folder
  folder=$(dirname "${BASH_SOURCE[0]}")/../build/rmm
  [ ! -d "$folder/librmm" ] || return 0
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$folder" \
    'librmm-cu13==26.10.*' 'rapids-logger==0.3.*' 2>/dev/null ||
    echo "install-deps: no wheel of RMM, so that its example is not built" >&2
}

case "${1-test}" in
  program) install_program "${program[@]}" ;;
  test) install_program "${test[@]}" ;;
  ci)
    install_program "${test[@]}"
    install_linters
    install_offered chromium node-typescript
    fetch_rmm
    ;;
  *)
    echo "install-deps: there is no set '$1'; the sets are program, test and ci" >&2
    exit 2
    ;;
esac
