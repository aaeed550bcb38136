#!/usr/bin/env bash
# Installs what is missing of the compilers and libraries (Debian 12+, Ubuntu 24.04+).
#
#   tools/install-deps.sh [program|test|ci]
#
# program: what building `millrace` takes, with the client libraries of all sinks of the streamer; test
# (the usual): the tests as well; ci: also the linters and a clang with libFuzzer, where the distribution
# has them. No server is started, now or when the machine starts: redis-tools has the program of one.
# With nothing missing it does nothing, and needs neither root nor a network. CUDA is never installed; a
# toolkit that is there is used.
set -euo pipefail

# Each sink of the streamer names the packages of its client libraries.
mapfile -t clients < <(sed -nE 's/.*PACKAGE ([^ )]+).*/\1/p' \
  "$(dirname "${BASH_SOURCE[0]}")"/../streamer/src/sink/*/client.cmake)
program=(g++ cmake ninja-build ccache libspdlog-dev libfmt-dev libcli11-dev nlohmann-json3-dev zlib1g-dev
  libopenblas-dev libxxhash-dev "${clients[@]}")
test=("${program[@]}" pkg-config catch2 librapidcheck-dev libbenchmark-dev libopenmpi-dev openmpi-bin redis-tools python3)

# A tool that is there counts, wherever it came from.
is_installed() {
  case "$1" in
    ninja-build) command -v ninja >/dev/null && return ;;
    redis-tools) command -v redis-server redis-check-rdb >/dev/null && return ;;
    g++ | cmake | ccache | pkg-config | python3 | shellcheck | doxygen | clang-*) command -v "$1" >/dev/null && return ;;
  esac
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing_of() {
  local package
  for package in "$@"; do
    is_installed "$package" || printf '%s\n' "$package"
  done
}

# Runs a command as root, or says what somebody else has to do.
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

# The newest clang that can compile C++20 and has libFuzzer; formatting and linting are those of version 14.
install_linters() {
  local tool version
  for tool in shellcheck clang-format-14 clang-tidy-14 doxygen; do
    apt-cache show "$tool" >/dev/null 2>&1 && install_missing "$tool"
  done
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

case "${1-test}" in
  program) install_missing "${program[@]}" ;;
  test) install_missing "${test[@]}" ;;
  ci)
    install_missing "${test[@]}"
    install_linters
    ;;
  *)
    echo "install-deps: there is no set '$1'; the sets are program, test and ci" >&2
    exit 2
    ;;
esac
