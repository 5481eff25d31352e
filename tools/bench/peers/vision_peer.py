#!/usr/bin/env python3
"""What `tost bench` measures of image classifiers, in PyTorch; one JSON line each.

    vision_peer.py step --depth 12 --heads 4 --width 192 --patch 16 --image_size 224 --batch 8
    vision_peer.py tssa --tokens 196 --width 192 --heads 4 --batch 8 --form official
    vision_peer.py check tests/golden/vision_tiny_tssa.safetensors tests/golden/tssa_op_*.safetensors

The peer runs at its best, as peer.py does, with channels last in the stem. --compile puts the
blocks through torch.compile: the stem is as fast without, and the whole model no faster.
"""

import os

import measure

measure.restart_with_kept_memory()
import torch
import torch.nn.functional as F

import vision_model
from measure import faster_adamw, forget_peak_memory, libraries_mb, median_seconds, report, status_mb
from vision_model import VisionModel, parameter_groups

OPERATORS = {"official": vision_model.tssa_official, "tuned": vision_model.tssa_tuned}


def step(args):
    base = libraries_mb(args.compile)
    model = VisionModel(
        args.depth, args.heads, args.width, args.patch, args.image_size, args.classes
    )
    if args.compile:
        for block in [*model.blocks, *model.cls_attn_blocks]:
            block.compile()
    # As the official pretraining has it.
    name, optimizer = faster_adamw(parameter_groups(model, 0.05), betas=(0.9, 0.999))
    images = torch.randn(args.batch, 3, args.image_size, args.image_size)
    images = images.contiguous(memory_format=torch.channels_last)
    targets = torch.randn(args.batch, args.classes).softmax(dim=1)

    def update():
        F.cross_entropy(model(images), targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    update()
    forget_peak_memory()
    seconds = median_seconds(update, args.repeats)
    report(
        "step",
        model="tost_vision",
        depth=args.depth,
        width=args.width,
        patch=args.patch,
        image_size=args.image_size,
        batch=args.batch,
        classes=args.classes,
        threads=args.threads,
        compiled=args.compile,
        optimizer=name,
        seconds=seconds,
        peak_mb=status_mb("VmHWM"),
        base_mb=base,
    )


def tssa(args):
    base = libraries_mb(args.compile)
    w = torch.randn(args.batch, args.tokens, args.width, requires_grad=True)
    dy = torch.randn(args.batch, args.tokens, args.width)
    temp = torch.ones(args.heads, 1, requires_grad=True)
    operator = OPERATORS[args.form]
    if args.compile:
        operator = torch.compile(operator)

    def forward():
        with torch.no_grad():
            operator(w, temp, args.heads)

    def both():
        operator(w, temp, args.heads).backward(dy)
        w.grad = temp.grad = None

    forward(), both()
    forget_peak_memory()
    report(
        "tssa",
        form=args.form,
        tokens=args.tokens,
        width=args.width,
        heads=args.heads,
        batch=args.batch,
        threads=args.threads,
        compiled=args.compile,
        forward_seconds=median_seconds(forward, args.repeats),
        seconds=median_seconds(both, args.repeats),
        peak_mb=status_mb("VmHWM"),
        base_mb=base,
    )


def operator_pairs(tensors):
    """Values and gradients of both forms of the operator, with those of a golden file."""
    for name, operator in OPERATORS.items():
        w, temp = (tensors[key].clone().requires_grad_() for key in ("w", "temp"))
        y = operator(w, temp, temp.shape[0])
        y.backward(tensors["dy"])
        yield f"{name}.y", y, tensors["y"]
        yield f"{name}.dw", w.grad, tensors["dw"]
        yield f"{name}.dtemp", temp.grad, tensors["dtemp"]


def model_pairs(tensors, metadata):
    """Logits, loss, all gradients and running statistics of a whole model, with a golden file's."""
    names = ("depth", "num_heads", "embed_dim", "patch_size", "img_size", "num_classes")
    model = VisionModel(*(int(metadata[name]) for name in names))
    weights = {k.removeprefix("param."): v for k, v in tensors.items() if k.startswith("param.")}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    missing = [name for name in missing if not name.endswith(("_mean", "_var", "_tracked"))]
    if missing or unexpected:
        raise SystemExit(f"vision_peer.py check: missing {missing}, unexpected {unexpected}")
    logits = model(tensors["x"])
    loss = F.cross_entropy(logits, tensors["label"].long())
    loss.backward()
    yield "logits", logits, tensors["logits"]
    yield "loss", loss.reshape(1), tensors["loss"]
    for name, parameter in model.named_parameters():
        yield name, parameter.grad, tensors["grad." + name]
    for name, buffer in model.named_buffers():
        if "buffer_after1." + name in tensors:
            yield name, buffer, tensors["buffer_after1." + name]
    yield "logits in evaluation", model.eval()(tensors["x"]), tensors["logits_eval"]


def check(args):
    """Both operators and the model against golden files of the official implementation."""
    from safetensors import safe_open

    # Float32 against float32 after some hundred operations, relative to the largest entry.
    tolerance = 2e-5
    worst_of_all = 0.0
    for path in args.files:
        with safe_open(path, framework="pt") as file:
            tensors, metadata = {k: file.get_tensor(k) for k in file.keys()}, file.metadata()
        if "attn_mask" in tensors:
            continue  # dropout is no part of the peer
        whole = "logits" in tensors
        pairs = model_pairs(tensors, metadata) if whole else operator_pairs(tensors)
        worst, where = max(
            (((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-30)).item(), name)
            for name, ours, theirs in pairs
        )
        report("check", file=os.path.basename(path), worst=worst, where=where)
        worst_of_all = max(worst_of_all, worst)
    if not worst_of_all <= tolerance:
        raise SystemExit(f"vision_peer.py check: {worst_of_all:.3g} exceeds {tolerance:.3g}")


def main():
    commands = measure.Commands(__doc__.splitlines()[0])
    shape = {"depth": 12, "heads": 4, "width": 192}
    commands.add("step", step, patch=16, image_size=224, classes=1000, batch=8, **shape)
    operator = commands.add("tssa", tssa, tokens=196, width=192, heads=4, batch=8)
    operator.add_argument("--form", choices=OPERATORS, default="tuned")
    commands.add("check", check).add_argument("files", nargs="+")
    commands.run()


if __name__ == "__main__":
    main()
