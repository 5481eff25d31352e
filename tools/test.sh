#!/usr/bin/env bash
# Installs, builds and runs every test that needs no GPU; ends with a summary and fails if any part
# failed. About 40 minutes on two cores the first time, less with ccache's help.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# Cached objects stay valid in another checkout of the same tree.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true
# Several test programs run at once; waiting threads must not spin on the others' cores.
export OMP_WAIT_POLICY=passive
jobs=$(nproc)
logs=build/test-logs
mkdir -p "$logs"

names=() passes=() failures=() seconds=()

# part NAME COMMAND...: runs it, whatever happened before, and notes the outcome. A CTest run counts
# its tests, any other command counts as one.
part() {
  local name=$1 log begin=$SECONDS status passed failed
  shift
  log="$logs/${name//[^A-Za-z0-9]/-}.log"
  printf '\n== %s: %s\n' "$name" "$*"
  "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  if read -r failed passed < <(sed -nE \
    's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+)$/\1 \2/p' "$log"); then
    passed=$((passed - failed))
    # CTest may fail without a failed test, for instance when it finds none.
    [ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
  else
    failed=$((status != 0)) passed=$((status == 0))
  fi
  names+=("$name") passes+=("$passed") failures+=("$failed") seconds+=($((SECONDS - begin)))
}

build() {  # build PRESET CMAKE_OPTION...
  cmake --preset "$@" && cmake --build --preset "$1" --parallel "$jobs"
}

build_without_openmp() {
  cmake --preset cpu -B build/no-openmp -DTOST_OPENMP=OFF -DTOST_WERROR=ON -DTOST_TESTS=OFF \
    -DTOST_BENCHMARKS=OFF | tee build/no-openmp.txt &&
    grep -q 'OpenMP: absent' build/no-openmp.txt &&
    cmake --build build/no-openmp --parallel "$jobs" &&
    build/no-openmp/tost info | grep -E '^OpenMP +absent'
}

echo "test: about to install, check the format, build and run the tests, again under the sanitizers, build without OpenMP, and compile for GPUs where nvcc is"
part "dependencies" bash tools/install_dependencies.sh
part "format" bash tools/format.sh --check
part "build cpu" build cpu -DTOST_TESTS=ON -DTOST_BENCHMARKS=ON -DTOST_WERROR=ON
part "test cpu" ctest --preset cpu --parallel "$jobs" --no-tests=error
# Sanitizers make GCC 12 warn of the standard library's own code, so warnings are no errors here.
part "build asan" build asan -DTOST_TESTS=ON -DTOST_BENCHMARKS=OFF -DTOST_WERROR=OFF
part "test asan" ctest --preset asan --parallel "$jobs" --no-tests=error --label-exclude slow
part "without OpenMP" build_without_openmp
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
  part "build for GPUs" build cuda-check -DTOST_TESTS=ON -DTOST_BENCHMARKS=OFF -DTOST_WERROR=ON
  part "check for GPUs" ctest --preset cuda-check --no-tests=error
  part "clang reads CUDA" tools/check_cuda_with_clang.sh
else
  printf '\n== build for GPUs: skipped, no nvcc on this machine\n'
fi

printf '\n%-16s %8s %8s %8s\n' part passed failed seconds
passed=0 failed=0
for i in "${!names[@]}"; do
  printf '%-16s %8d %8d %8d\n' "${names[i]}" "${passes[i]}" "${failures[i]}" "${seconds[i]}"
  passed=$((passed + passes[i])) failed=$((failed + failures[i]))
done
[ "$failed" -eq 0 ] || echo "Logs: $logs"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
