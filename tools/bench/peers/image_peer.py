#!/usr/bin/env python3
"""image_peer.py FILE...: milliseconds of tost's and of Pillow's decoding, one thread each.

Every round runs image_bench and Pillow's open(...).convert("RGB") once on a picture, one after the
other, so that both meet the same machine; the table shows the best of 15 rounds in CPU time, since
what other programs on the machine do only adds to it. Both decode from memory.
"""

import io
import json
import os
import pathlib
import subprocess
import sys
import time

import PIL
from PIL import Image, features

ROOT = pathlib.Path(__file__).resolve().parents[3]
BENCH = ROOT / "build/cpu/tools/bench/image_bench"
ROUNDS = 15
SECONDS = 0.1  # of each in a round


def tost_ms(path):
    run = subprocess.run(
        [
            BENCH,
            "--benchmark_filter=decode/file",
            "--benchmark_format=json",
            f"--benchmark_min_time={SECONDS}",
        ],
        env={**os.environ, "TOST_BENCH_IMAGE": path},
        check=True,
        capture_output=True,
    )
    return json.loads(run.stdout)["benchmarks"][0]["cpu_time"]


def pillow_ms(content):
    begin = time.process_time()
    pictures = 0
    while time.process_time() - begin < SECONDS:
        Image.open(io.BytesIO(content)).convert("RGB")
        pictures += 1
    return 1e3 * (time.process_time() - begin) / pictures


def main():
    print(f"Pillow {PIL.__version__}, libjpeg-turbo {features.version_feature('libjpeg_turbo')}")
    print("| picture | bytes | tost | Pillow |\n|---|---|---|---|")
    for path in sys.argv[1:]:
        content = pathlib.Path(path).read_bytes()
        rounds = [(tost_ms(path), pillow_ms(content)) for _ in range(ROUNDS)]
        tost, pillow = (min(column) for column in zip(*rounds))
        print(f"| {pathlib.Path(path).name} | {len(content)} | {tost:.2f} | {pillow:.2f} |")


if __name__ == "__main__":
    main()
