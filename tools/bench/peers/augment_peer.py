#!/usr/bin/env python3
"""augment_peer.py: milliseconds of augmenting one picture, by tost and by torchvision and timm.

Every round runs augment_bench and the libraries' transforms on noise of the same extents, one
thread each, one after the other, so that both meet the same machine; the table shows the best of
ROUNDS rounds in CPU time. The libraries return tensors of three planes, tost pixels.
"""

import json
import pathlib
import subprocess
import time

import numpy
import PIL
import timm
import torch
import torchvision
from PIL import Image, ImageOps
from timm.data import create_transform
from timm.data.auto_augment import rand_augment_transform
from torchvision import transforms

ROOT = pathlib.Path(__file__).resolve().parents[3]
BENCH = ROOT / "build/cpu/tools/bench/augment_bench"
ROUNDS = 5
SECONDS = 0.3  # of each in a round
BICUBIC = transforms.InterpolationMode.BICUBIC
POLICY = "rand-m9-mstd0.5-inc1"


def noise(width, height):
    values = numpy.random.RandomState(0).randint(0, 256, (height, width, 3))
    return Image.fromarray(values.astype("uint8"))


def allow_zero_bits():
    """timm posterizes to 0 bits at level 10, which newer versions of Pillow refuse."""
    posterize = ImageOps.posterize
    ImageOps.posterize = lambda image, bits: posterize(image, max(bits, 1))


def timm_policy(interpolation):
    return rand_augment_transform(
        POLICY, {"img_mean": (124, 116, 104), "interpolation": interpolation}
    )


def normalisation():
    to_tensor = transforms.ToTensor()
    return [to_tensor, transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]


def pretraining_recipe():
    return create_transform(
        224,
        is_training=True,
        auto_augment=POLICY,
        interpolation="bicubic",
        re_prob=0.25,
        re_mode="pixel",
    )


def cases():
    """Names of augment_bench, with what the libraries do there."""
    large, small = noise(500, 375), noise(224, 224)
    normalise = normalisation()
    random_crop = [transforms.RandomResizedCrop(224, interpolation=BICUBIC), *normalise]
    fine_tuning = [
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.RandAugment(2, 14),
        *normalise,
    ]
    pretraining = pretraining_recipe()
    evaluation = [
        transforms.Resize(256, interpolation=BICUBIC),
        transforms.CenterCrop(224),
        *normalise,
    ]
    compose = transforms.Compose
    wide = noise(400, 300)
    return {
        "resize/400x300_bilinear": lambda: wide.resize((224, 224), Image.BILINEAR),
        "resize/500x375_bicubic": lambda: large.resize((224, 224), Image.BICUBIC),
        "random_resized_crop/bicubic": lambda f=compose(random_crop): f(large),
        "rand_augment/timm_bicubic": lambda f=timm_policy(Image.BICUBIC): f(small),
        "rand_augment/timm_bilinear": lambda f=timm_policy(Image.BILINEAR): f(small),
        "rand_augment/torchvision": lambda f=transforms.RandAugment(2, 14): f(small),
        "normalise": lambda f=compose(normalise): f(small),
        "recipe/pretraining": lambda: pretraining(large),
        "recipe/fine_tuning": lambda f=compose(fine_tuning): f(large),
        "evaluation": lambda f=compose(evaluation): f(large),
    }


def tost_ms():
    run = subprocess.run(
        [BENCH, "--benchmark_format=json", f"--benchmark_min_time={SECONDS}"],
        check=True,
        capture_output=True,
    )
    return {b["name"]: b["cpu_time"] for b in json.loads(run.stdout)["benchmarks"]}


def peer_ms(function, seconds=SECONDS):
    begin = time.process_time()
    pictures = 0
    while time.process_time() - begin < seconds:
        function()
        pictures += 1
    return 1e3 * (time.process_time() - begin) / pictures


def main():
    torch.set_num_threads(1)
    allow_zero_bits()
    print(f"Pillow {PIL.__version__}, torchvision {torchvision.__version__}, timm {timm.__version__}")
    peers = cases()
    rounds = [(tost_ms(), {n: peer_ms(f) for n, f in peers.items()}) for _ in range(ROUNDS)]
    print("| | tost | torchvision, timm |\n|---|---|---|")
    for name in peers:
        tost, peer = (min(r[side][name] for r in rounds) for side in (0, 1))
        print(f"| {name} | {tost:.3f} | {peer:.3f} |")


if __name__ == "__main__":
    main()
