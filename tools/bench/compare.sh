#!/usr/bin/env bash
# tost against PyTorch, interleaved in one run so that both meet the same machine: every round runs
# each case once on either side, the table shows the medians over the rounds. Leave the machine
# alone meanwhile.
#
#   PEER_PYTHON=~/peers/bin/python tools/bench/compare.sh [language|vision [FOLDER]]
#
# What is compared: language unless told, into runs/compare_language. ROUNDS (5), THREADS (2),
# REPEATS (each case's own) within a round; COMPILE=1 measures torch.compile of language models as
# well, which takes minutes and so is done once. tools/bench/peers/README.md says how to make the
# Python environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

rounds=${ROUNDS:-5}
threads=${THREADS:-2}
python=${PEER_PYTHON:-python3}
subject=${1:-language}
folder=${2:-runs/compare_$subject}
peers=tools/bench/peers
tost=(build/cpu/tost --threads "$threads" bench)

# name | tost bench … | side: script and its arguments | … ; a case without a peer shows tost's
# figures alone.
tost_step="peer.py step --model tost --layers 6 --heads 6 --width 384 --context 256 --batch 8 --vocab 65"
gpt2_step=${tost_step/--model tost/--model gpt2}
language=(
  "ToST step, 6 layers, 384 wide, T 256, B 8|step --model tost_char --batch 8 --repeats 10|pytorch: $tost_step"
  "GPT-2 step, 6 layers, 384 wide, T 256, B 8|step --model gpt2_char --batch 8 --repeats 10|pytorch: $gpt2_step"
  "causal TSSA, 768 wide, 12 heads, T 1024|tssa --tokens 1024 --width 768 --heads 12 --batch 1|pytorch: peer.py tssa --tokens 1024 --width 768 --heads 12"
  "causal TSSA, 768 wide, 12 heads, T 4096|tssa --tokens 4096 --width 768 --heads 12 --batch 1 --repeats 10|pytorch: peer.py tssa --tokens 4096 --width 768 --heads 12"
  "causal TSSA, 768 wide, 12 heads, T 262144|tssa --tokens 262144 --width 768 --heads 12 --batch 1 --repeats 3"
  "ToST decoding, 6 layers, 384 wide, 200 tokens|decode --model tost_char --tokens 200 --repeats 5|pytorch: peer.py decode --model tost --layers 6 --heads 6 --width 384 --context 256 --vocab 65 --tokens 200"
)

# vision_step NAME MODEL BATCH IMAGE_SIZE SHAPE: a case, SHAPE being the model's as the peer is told.
vision_step() {
  local ours="step --model $2 --batch $3 --image_size $4 --repeats 10"
  local theirs="vision_peer.py step $5 --batch $3 --image_size $4 --repeats 10"
  echo "$1|$ours|pytorch: $theirs|pytorch-compiled: $theirs --compile"
}
# vision_tssa TOKENS: a case of the operator.
vision_tssa() {
  local shape="tssa --tokens $1 --width 192 --heads 4 --batch 8 --repeats 20"
  echo "TSSA, 192 wide, 4 heads, N $1, B 8|$shape --variant whole|pytorch-official: vision_peer.py $shape --form official|pytorch-tuned: vision_peer.py $shape|pytorch-compiled: vision_peer.py $shape --compile"
}
vision=(
  "$(vision_step "ToST-T/16 step, 224 x 224, B 8" tost_cab_tiny_12_p16 8 224 "--depth 12 --heads 4 --width 192 --patch 16 --classes 1000")"
  "$(vision_step "ToST-T/8 step, 32 x 32, B 64" tost_cab_tiny_12_p8 64 32 "--depth 12 --heads 4 --width 192 --patch 8 --classes 1000")"
  "$(vision_step "small ToST/8 step, 32 x 32, B 64" tost_small_pictures_p8 64 32 "--depth 6 --heads 4 --width 128 --patch 8 --classes 10")"
  "$(vision_tssa 196)"
  "$(vision_tssa 784)"
  "$(vision_tssa 3136)"
)
case $subject in
  language) cases=("${language[@]}") ;;
  vision) cases=("${vision[@]}") ;;
  *)
    echo "compare: what is compared is language or vision, not '$subject'" >&2
    exit 2
    ;;
esac

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
  "$@" ${REPEATS:+--repeats "$REPEATS"} >>"$folder/$index.$side.jsonl"
}

echo "compare: about to run ${#cases[@]} cases, $rounds rounds, $threads threads, into $folder"
for ((round = 1; round <= rounds; round++)); do
  echo "compare: round $round of $rounds"
  for index in "${!cases[@]}"; do
    IFS='|' read -ra parts <<<"${cases[index]}"
    echo "${parts[0]}" >"$folder/$index.name"
    read -ra ours <<<"${parts[1]}"
    measure "$index" tost "${tost[@]}" "${ours[@]}"
    for part in "${parts[@]:2}"; do
      read -ra theirs <<<"${part#*: }"
      peer=("$python" "$peers/${theirs[0]}" "${theirs[@]:1}" --threads "$threads")
      measure "$index" "${part%%: *}" "${peer[@]}"
      if [ "$subject" = language ] && [ "${COMPILE:-0}" = 1 ] && [ "$round" = 1 ]; then
        measure "$index" pytorch-compiled "${peer[@]}" --compile
      fi
    done
  done
done
"$python" "$peers/table.py" "$folder"
