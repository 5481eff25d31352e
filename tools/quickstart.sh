#!/usr/bin/env bash
# From a bare machine to a trained ToST language model that speaks: installs, builds, trains on the
# bundled Tiny Shakespeare, evaluates, samples. About 10 minutes on two cores.
# Nothing is overwritten: a second call trains into runs/quickstart-2.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
started=$SECONDS

step() { printf '\n== %s\n' "$*"; }
show() {
  printf '$ %s\n' "$*"
  "$@"
}

folder=runs/quickstart
number=1
while [ -e "$folder" ]; do
  number=$((number + 1))
  folder=runs/quickstart-$number
done

step "1/6 install what is missing (tools/install_dependencies.sh)"
bash tools/install_dependencies.sh

step "2/6 build build/cpu/tost (2 to 5 minutes the first time)"
show cmake --preset cpu
show cmake --build --preset cpu --target tost

step "3/6 turn the text into characters: $folder/data"
show build/cpu/tost prepare characters data/samples/tinyshakespeare.txt --output "$folder/data"

step "4/6 train a small ToST (at most 4 minutes): $folder/model"
show build/cpu/tost train language --config trainers/recipes/shakespeare_char_cpu.toml \
  --data "$folder/data" --output "$folder/model"

step "5/6 evaluate on the validation part"
show build/cpu/tost evaluate --run "$folder/model"

step "6/6 sample 500 characters"
show build/cpu/tost sample --run "$folder/model" --tokens 500 --seed 1

cat <<END

Done in $(((SECONDS - started) / 60)) min $(((SECONDS - started) % 60)) s. Where everything is:
  build/cpu/tost                                 the program
  $folder/data                           the prepared text and its vocabulary
  $folder/model                          the run: config.toml, metrics.jsonl, checkpoints
  trainers/recipes/shakespeare_char_cpu.toml     the recipe it followed
What to try next:
  build/cpu/tost sample --run $folder/model --prompt "ROMEO:" --temperature 0.8 --tokens 300
  build/cpu/tost inspect parameters --run $folder/model
  less ops/tssa.h                                the formula that was trained
  tools/test.sh                                  all tests
END
