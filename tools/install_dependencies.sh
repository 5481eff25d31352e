#!/usr/bin/env bash
# Installs what tost needs to build and test, on Debian 12 and Ubuntu 22.04 / 24.04, through apt.
# Where everything is there already it changes nothing and needs no network.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config      # toolchain
  libabsl-dev                                  # Abseil
  libdnnl-dev ocl-icd-opencl-dev               # oneDNN, the GEMM library; its CMake file wants OpenCL
  libcli11-dev nlohmann-json3-dev              # command line, JSON
  libicu-dev libarchive-dev libssl-dev         # Unicode classes, archives, SHA-256
  libjpeg-dev libpng-dev libgif-dev            # pictures; libjpeg is libjpeg-turbo on both systems
  libmatio-dev                                 # MATLAB files of Flowers-102
  libgtest-dev libgmock-dev libbenchmark-dev   # tests, benchmarks
  clang-format-14                              # 14 on every system: other versions format otherwise
  openmpi-bin libopenmpi-dev                   # several processes
)

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "install_dependencies: this system has no apt; install by hand: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done

if [ ${#missing[@]} -eq 0 ]; then
  echo "install_dependencies: all ${#packages[@]} packages are installed, nothing to do"
else
  privileges=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "install_dependencies: not root and no sudo; as root run: apt-get update && apt-get install --yes ${missing[*]}" >&2
      exit 1
    fi
    privileges=(sudo)
  fi
  echo "install_dependencies: about to install with apt: ${missing[*]}"
  "${privileges[@]}" apt-get -qq update
  "${privileges[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq install --yes --no-install-recommends "${missing[@]}"
fi

cmake_version=$(cmake --version | awk 'NR == 1 {print $3}')
if [ "$(printf '%s\n' 3.25 "$cmake_version" | sort --version-sort | head -n 1)" != 3.25 ]; then
  echo "install_dependencies: cmake is $cmake_version but tost needs 3.25 (Ubuntu 22.04 ships 3.22); install a newer one with: pip install 'cmake>=3.25' (or: snap install cmake --classic)" >&2
  exit 1
fi

# What tost can do without, and what each absence means.
report() { printf '  %-5s %s\n' "$1" "$2"; }
echo "install_dependencies: optional parts"
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
  report CUDA "found"
else
  report CUDA "absent: tost runs on the CPU"
fi
if [ -e /usr/include/nccl.h ] || [ -e /usr/local/cuda/include/nccl.h ]; then
  report NCCL "found"
else
  report NCCL "absent: at most one GPU"
fi
if command -v mpirun >/dev/null; then
  report MPI "found"
else
  report MPI "absent: one process"
fi
