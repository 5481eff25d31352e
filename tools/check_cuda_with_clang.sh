#!/usr/bin/env bash
# Reads every CUDA file with clang's front end, as a second opinion: among other things it names
# calls of device functions from host templates, which nvcc compiles into an exit without a word.
# Needs the CUDA Toolkit and clang 19 (apt-get install clang-19); where one is missing, says so and
# passes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if ! command -v clang++-19 >/dev/null || [ ! -x "$nvcc" ]; then
  echo "check_cuda_with_clang: skipped, needs clang++-19 and the CUDA Toolkit"
  exit 0
fi
toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")

# A header that clang's wrappers include and CUDA 13 no longer has.
absent=$(mktemp -d)
trap 'rm -rf "$absent"' EXIT
: >"$absent/texture_fetch_functions.h"

files=(cuda/*.cu)
echo "check_cuda_with_clang: about to read ${#files[@]} files"
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -I{} \
  clang++-19 -x cuda -std=c++20 --cuda-path="$toolkit" --cuda-gpu-arch=sm_90 -fsyntax-only \
  -I. -I"$absent" -Werror -Wno-unknown-cuda-version -Wno-cuda-compat {}
echo "check_cuda_with_clang: no complaint"
