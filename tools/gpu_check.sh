#!/usr/bin/env bash
# gpu_check.sh [FOLDER]: everything that needs a GPU, on a machine that has one, in under ten
# minutes: builds for it, runs the tests of the CUDA backend on it, then measures kernels, training
# steps, lengths and decoding. Text and JSON go to FOLDER (build/gpu-check).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

output=${1:-build/gpu-check}
mkdir -p "$output"
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi --list-gpus >/dev/null 2>&1; then
  echo "gpu_check: no GPU here (nvidia-smi finds none); run this on a machine with one" >&2
  exit 2
fi
echo "gpu_check: about to build for this GPU, run the gpu tests and measure; results go to $output"
nvidia-smi --query-gpu=name,memory.total,driver_version,clocks.max.sm --format=csv | tee "$output/gpu.txt"

failures=0
# step NAME COMMAND...: runs it, shows and keeps what it prints, and goes on whatever happened.
step() {
  local name=$1 begin=$SECONDS
  shift
  printf '\n== %s: %s\n' "$name" "$*"
  if ! "$@" 2>&1 | tee "$output/$name.txt"; then
    echo "gpu_check: $name failed" | tee -a "$output/failures.txt"
    failures=$((failures + 1))
  fi
  echo "($((SECONDS - begin)) s)"
}

build() {
  cmake --preset cuda -DCMAKE_CUDA_ARCHITECTURES=native -DTOST_BENCHMARKS=OFF >"$output/configure.txt" 2>&1 &&
    cmake --build build/cuda --parallel "$(nproc)" --target tost gpu_test gpu_golden_test
}

tost=build/cuda/tost
# bench NAME ARGUMENTS...: a line of JSON for each setting, appended to NAME.json.
bench() {
  local name=$1
  shift
  "$tost" bench "$@" --device cuda | tee -a "$output/$name.json"
}

# Time and memory of a training step of one sequence against its length.
lengths() {
  local model tokens
  for model in tost_base gpt2; do
    for tokens in 1024 4096 16384 65536; do
      # Softmax attention takes quadratic time: its longest length would take the rest of the check.
      if [ "$model" = gpt2 ] && [ "$tokens" -gt 16384 ]; then continue; fi
      bench lengths step --model "$model" --context "$tokens" --batch 1 --compute_dtype bfloat16 --repeats 5
    done
  done
}

steps() {
  local model
  for model in tost_base gpt2; do
    bench steps step --model "$model" --batch 60 --compute_dtype bfloat16 --repeats 10 ||
      bench steps step --model "$model" --batch 16 --compute_dtype bfloat16 --repeats 10
  done
  bench steps step --model tost_cab_small_12_p16 --batch 128 --compute_dtype bfloat16 --repeats 10
}

decoding() {
  local model
  for model in tost_base gpt2; do bench decoding decode --model "$model" --tokens 256 --repeats 3; done
}

rm -f "$output"/*.json "$output/failures.txt"
step build build
step tests ctest --test-dir build/cuda --label-regex '^gpu$' --parallel 4 --output-on-failure
step kernels "$tost" bench kernels --batch 60 --compute_dtype bfloat16 --device cuda
bench kernels kernels --batch 60 --compute_dtype bfloat16 --json >/dev/null
step steps steps
step lengths lengths
step decoding decoding

printf '\ngpu_check: %s; results in %s\n' "$([ "$failures" -eq 0 ] && echo "all done" || echo "$failures steps failed")" "$output"
[ "$failures" -eq 0 ]
