#!/usr/bin/env bash
# Installs what building and testing Stoker needs, with apt. Debian 12 is run; Ubuntu 24.04 has the
# same names. Idempotent and quick when all is there. --clang adds what the fuzz and analyze presets
# need. As root, or through sudo.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config git python3 python3-dev python3-venv binutils
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev
  libisal-dev zlib1g-dev libssl-dev libjpeg-dev libpng-dev
  libhwy-dev libspdlog-dev libfmt-dev libcli11-dev libboost-dev nlohmann-json3-dev
  libsystemd-dev libbenchmark-dev catch2 libjpeg-turbo-progs
)
for argument in "$@"; do
  case "$argument" in
    --clang) packages+=(clang clang-tidy clang-format libclang-rt-dev) ;;
    *) echo "usage: $0 [--clang]" >&2; exit 2 ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
    missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "install-deps: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo > /dev/null || { echo "install-deps: not root and no sudo; install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "install-deps: installing ${missing[*]}"
if ! { "${as_root[@]}" apt-get update -qq &&
       DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; } > "$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
echo "install-deps: done"
