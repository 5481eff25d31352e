#!/usr/bin/env bash
# tost against PyTorch, interleaved in one run so that both meet the same machine: every round runs
# each case once on either side, the table shows the medians over the rounds. Leave the machine
# alone meanwhile.
#
#   PEER_PYTHON=~/peers/bin/python tools/bench/compare.sh [FOLDER]     (default runs/compare)
#
# ROUNDS (5), THREADS (2), COMPILE=1 to measure torch.compile as well. tools/bench/peers/README.md
# says how to make the Python environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

rounds=${ROUNDS:-5}
threads=${THREADS:-2}
python=${PEER_PYTHON:-python3}
folder=${1:-runs/compare}
peer=("$python" tools/bench/peers/peer.py)
tost=(build/cpu/tost --threads "$threads" bench)

# name | tost bench … | peer.py … ; a case without a peer shows tost's figures alone.
cases=(
  "ToST step, 6 layers, 384 wide, T 256, B 8|step --model tost_char --batch 8 --repeats 10|step --model tost --layers 6 --heads 6 --width 384 --context 256 --batch 8 --vocab 65"
  "GPT-2 step, 6 layers, 384 wide, T 256, B 8|step --model gpt2_char --batch 8 --repeats 10|step --model gpt2 --layers 6 --heads 6 --width 384 --context 256 --batch 8 --vocab 65"
  "causal TSSA, 768 wide, 12 heads, T 1024|tssa --tokens 1024 --width 768 --heads 12 --batch 1|tssa --tokens 1024 --width 768 --heads 12"
  "causal TSSA, 768 wide, 12 heads, T 4096|tssa --tokens 4096 --width 768 --heads 12 --batch 1 --repeats 10|tssa --tokens 4096 --width 768 --heads 12"
  "causal TSSA, 768 wide, 12 heads, T 262144|tssa --tokens 262144 --width 768 --heads 12 --batch 1 --repeats 3|"
  "ToST decoding, 6 layers, 384 wide, 200 tokens|decode --model tost_char --tokens 200 --repeats 5|decode --model tost --layers 6 --heads 6 --width 384 --context 256 --vocab 65 --tokens 200"
)

if [ ! -x build/cpu/tost ]; then
  echo "compare: build/cpu/tost is missing; run: cmake --preset cpu && cmake --build --preset cpu" >&2
  exit 1
fi
if ! "$python" -c 'import torch' 2>/dev/null; then
  echo "compare: $python has no torch; see tools/bench/peers/README.md and set PEER_PYTHON" >&2
  exit 1
fi
mkdir -p "$folder"
rm -f "$folder"/*.jsonl

# measure INDEX SIDE COMMAND...: appends the command's JSON line to the case's file.
measure() {
  local index=$1 side=$2
  shift 2
  "$@" >>"$folder/$index.$side.jsonl"
}

echo "compare: about to run ${#cases[@]} cases, $rounds rounds, $threads threads, into $folder"
for ((round = 1; round <= rounds; round++)); do
  echo "compare: round $round of $rounds"
  for index in "${!cases[@]}"; do
    IFS='|' read -r name ours theirs <<<"${cases[index]}"
    echo "$name" >"$folder/$index.name"
    read -ra ours <<<"$ours"
    read -ra theirs <<<"$theirs"
    measure "$index" tost "${tost[@]}" "${ours[@]}"
    [ ${#theirs[@]} -gt 0 ] || continue
    measure "$index" pytorch "${peer[@]}" "${theirs[@]}" --threads "$threads"
    # Compiling takes a minute, so once is enough.
    if [ "${COMPILE:-0}" = 1 ] && [ "$round" = 1 ]; then
      measure "$index" pytorch-compiled "${peer[@]}" "${theirs[@]}" --threads "$threads" --compile
    fi
  done
done
"$python" tools/bench/peers/table.py "$folder"
