#!/usr/bin/env python3
"""The logits of tost's image classifiers against those of the peer with the same weights.

    $PEER_PYTHON tools/bench/peers/vision_check.py --tost build/cpu/tost

needs torch and safetensors. Trains tiny runs on coloured noise, so that logits depend on the
picture and no weight is its first value, loads what `tost export` writes into vision_model.py and
compares logits on pictures with those behind the probabilities of `tost predict`. Prints one line
per model and fails above the bound.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy
import torch
from safetensors.torch import load_file

from vision_model import VisionModel

BOUND = 1e-4
PICTURES, SIDE = 8, 32
MEAN, DEVIATION = torch.tensor((0.485, 0.456, 0.406)), torch.tensor((0.229, 0.224, 0.225))
MODELS = ("tost_small_pictures_p8", "tost_small_pictures_p4", "tost_cab_tiny_12_p16")


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def coloured_noise(labels, random):
    """Pictures [B, S, S, 3] of 8 bits, in the colour of their class and with as much noise."""
    colours = numpy.random.RandomState(1).randint(0, 128, (10, 1, 1, 3))
    noise = random.randint(0, 128, (len(labels), SIDE, SIDE, 3))
    return (colours[labels] + noise).astype("uint8")


def write_cifar(folder, random):
    """20 pictures a file, in the format of CIFAR-10: the label, then three planes."""
    os.mkdir(folder)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        labels = numpy.arange(20) % 10
        planes = coloured_noise(labels, random).transpose(0, 3, 1, 2).reshape(20, -1)
        rows = numpy.concatenate([labels[:, None].astype("uint8"), planes], axis=1)
        rows.tofile(os.path.join(folder, name))


def write_png(path, pixels):
    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.write(chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def peer_logits(folder, pixels):
    """Of an official export; pixels [B, S, S, 3] of 8 bits."""
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    names = ("depth", "heads", "width", "patch", "image_size", "classes")
    model = VisionModel(*(config[name] for name in names)).eval()
    model.load_state_dict(load_file(os.path.join(folder, "model.safetensors")))
    images = (torch.from_numpy(pixels).float() / 255 - MEAN) / DEVIATION
    with torch.no_grad():
        return model(images.permute(0, 3, 1, 2))


def tost_logits(tost, trained, folder):
    """Logarithms of the probabilities: the logits but for a constant of each picture."""
    lines = run(tost, "predict", "--run", trained, "--json", "--top", 1000000, folder).splitlines()
    rows = [sorted(json.loads(line)["classes"], key=lambda c: c["label"]) for line in lines]
    return torch.tensor([[c["probability"] for c in row] for row in rows]).log()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tost", required=True)
    tost = parser.parse_args().tost
    random = numpy.random.RandomState(7)
    worst = 0.0
    with tempfile.TemporaryDirectory() as root:
        path = lambda name: os.path.join(root, name)
        write_cifar(path("data"), random)
        pixels = coloured_noise(numpy.arange(PICTURES), random)
        os.mkdir(path("pictures"))
        for i, picture in enumerate(pixels):
            write_png(path(f"pictures/{i}.png"), picture)
        options = "--any_sizes --crop padded --crop_fraction 1 --select_on none --global_batch 16"
        options += " --steps 20 --learning_rate 0.003 --evaluate_every 0 --checkpoint_every 0"
        options += f" --image_size {SIDE}"
        for name in MODELS:
            trained, exported = path(name), path(name + "_export")
            where = ("--data", path("data"), "--output", trained, "--model", name)
            run(tost, "train", "vision", *where, *options.split())
            run(tost, "export", "--run", trained, "--output", exported)
            theirs = peer_logits(exported, pixels)
            ours = tost_logits(tost, trained, path("pictures"))
            ours = ours - (ours - theirs).mean(dim=1, keepdim=True)
            difference = (ours - theirs).abs().max().item()
            # Logits that hardly differ from picture to picture would prove nothing.
            spread = theirs.std(dim=0).mean().item()
            print(
                f"{name:24s} logits spread by {spread:.3f} over the pictures, maximum "
                f"difference {difference:.2e} (bound {BOUND:.0e})",
                flush=True,
            )
            worst = max(worst, difference if spread > 100 * BOUND else float("inf"))
    sys.exit(0 if worst <= BOUND else 1)


if __name__ == "__main__":
    main()
