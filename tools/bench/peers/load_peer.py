#!/usr/bin/env python3
"""load_peer.py FILE...: from the bytes of a JPEG to what a model trains on, by tost and others.

Every round runs image_bench's load/ cases on a picture, and the same with Pillow, torchvision and
timm as training scripts do it, and with torchvision's own decoder and transforms of tensors; one
thread each, one after the other, so that all meet the same machine. The table shows the best of
ROUNDS rounds in CPU time, as milliseconds and as pictures a second of one core. The libraries
return tensors of three planes, tost pixels.
"""

import io
import json
import os
import pathlib
import subprocess
import sys

import measure

measure.restart_with_kept_memory()
import PIL
import timm
import torch
import torchvision
from PIL import Image
from torchvision import transforms
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms import v2

from augment_peer import BICUBIC, allow_zero_bits, normalisation, peer_ms, pretraining_recipe

ROOT = pathlib.Path(__file__).resolve().parents[3]
BENCH = ROOT / "build/cpu/tools/bench/image_bench"
ROUNDS = 7
SECONDS = 0.5  # of each in a round


def tost_ms(path):
    run = subprocess.run(
        [
            BENCH,
            "--benchmark_filter=load/",
            "--benchmark_format=json",
            f"--benchmark_min_time={SECONDS}",
        ],
        env={**os.environ, "TOST_BENCH_IMAGE": path},
        check=True,
        capture_output=True,
    )
    return {b["name"]: b["cpu_time"] for b in json.loads(run.stdout)["benchmarks"]}


def peers_of(content):
    """What stands beside each case of image_bench: a side's name and its work."""
    crop_and_flip = transforms.Compose(
        [
            transforms.RandomResizedCrop(224, interpolation=BICUBIC),
            transforms.RandomHorizontalFlip(),
            *normalisation(),
        ]
    )
    of_tensors = v2.Compose(
        [
            v2.RandomResizedCrop(224, interpolation=BICUBIC, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    pretraining = pretraining_recipe()
    tensor = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    picture = lambda: Image.open(io.BytesIO(content)).convert("RGB")
    pixels = lambda: decode_jpeg(tensor, mode=ImageReadMode.RGB)
    return {
        "load/crop_and_flip": {
            "Pillow": lambda: crop_and_flip(picture()),
            "tensors": lambda: of_tensors(pixels()),
        },
        # timm's RandAugment is one of pictures, not of tensors.
        "load/pretraining": {"Pillow": lambda: pretraining(picture())},
    }


def shown(ms):
    return f"{ms:.2f} ms, {1e3 / ms:.0f}/s" if ms else ""


def main():
    torch.set_num_threads(1)
    allow_zero_bits()
    print(f"Pillow {PIL.__version__}, torchvision {torchvision.__version__}, timm {timm.__version__}")
    print("| picture | | tost | Pillow, torchvision, timm | torchvision, tensors |")
    print("|---|---|---|---|---|")
    for path in sys.argv[1:]:
        peers = peers_of(pathlib.Path(path).read_bytes())
        best = {}
        for _ in range(ROUNDS):
            for case, ms in tost_ms(path).items():
                best[case, "tost"] = min(ms, best.get((case, "tost"), ms))
                for side, work in peers[case].items():
                    ms = peer_ms(work, SECONDS)
                    best[case, side] = min(ms, best.get((case, side), ms))
        for case in peers:
            sides = " | ".join(shown(best.get((case, s))) for s in ("tost", "Pillow", "tensors"))
            print(f"| {pathlib.Path(path).name} | {case} | {sides} |")


if __name__ == "__main__":
    main()
