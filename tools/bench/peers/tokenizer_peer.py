#!/usr/bin/env python3
"""tokenizer_peer.py TEXT...: MB/s of tost's and of tiktoken's GPT-2 encoding, one thread each.

Every round runs tokenizer_bench and tiktoken's encode_ordinary once on a text, one after the other,
so that both meet the same machine; the table shows medians of 5 rounds. Seconds are CPU time, which
other programs on the machine disturb less. tiktoken's tables are those in data/gpt2, so no network
is needed. The counts of ids must agree.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import tiktoken

ROOT = pathlib.Path(__file__).resolve().parents[3]
BENCH = ROOT / "build/cpu/tools/bench/tokenizer_bench"
ROUNDS = 5
# tiktoken's own form of the pattern for its encoding "gpt2".
PATTERN = (
    r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
)


def gpt2():
    """tiktoken's encoding from encoder.json, whose ids are the ranks."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable}
    byte_of.update({chr(256 + i): byte for i, byte in enumerate(others)})
    tokens = json.loads((ROOT / "data/gpt2/encoder.json").read_text())
    end_of_text = {"<|endoftext|>": tokens.pop("<|endoftext|>")}
    ranks = {bytes(byte_of[c] for c in token): rank for token, rank in tokens.items()}
    return tiktoken.Encoding(
        "gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=end_of_text
    )


def tost_seconds(path):
    """CPU seconds and ids of one call, the mean over half a second of calls."""
    options = ["--benchmark_filter=encode/text$", "--benchmark_format=json"]
    out = subprocess.run(
        [BENCH, *options, "--benchmark_min_time=0.5"],
        env={**os.environ, "TOST_BENCH_TEXT": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    ).stdout
    result = json.loads(out)["benchmarks"][0]
    assert result["time_unit"] == "ms"
    return result["cpu_time"] / 1e3, int(result["ids"])


def tiktoken_seconds(encoding, text):
    start = time.thread_time()
    calls = 0
    while calls == 0 or time.thread_time() - start < 0.5:
        ids = encoding.encode_ordinary(text)
        calls += 1
    return (time.thread_time() - start) / calls, len(ids)


def main(paths):
    encoding = gpt2()
    print(f"| text | MB | tost, MB/s | tiktoken {tiktoken.__version__}, MB/s | ratio |")
    print("|---|---|---|---|---|")
    for path in paths:
        data = pathlib.Path(path).read_bytes()
        text = data.decode()
        encoding.encode_ordinary(text)  # warm
        ours, theirs, ratios = [], [], []
        for _ in range(ROUNDS):
            mine, ids = tost_seconds(path)
            peers, peer_ids = tiktoken_seconds(encoding, text)
            assert ids == peer_ids, f"{path}: {ids} ids, tiktoken has {peer_ids}"
            ours.append(len(data) / mine / 1e6)
            theirs.append(len(data) / peers / 1e6)
            ratios.append(peers / mine)
        print(
            f"| {pathlib.Path(path).name} | {len(data) / 1e6:.2f} | {statistics.median(ours):.1f} "
            f"| {statistics.median(theirs):.1f} | {statistics.median(ratios):.1f} × |",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
