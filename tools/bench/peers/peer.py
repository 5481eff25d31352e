#!/usr/bin/env python3
"""The same measurements as `tost bench`, in PyTorch; one JSON line each.

    peer.py step --layers 6 --heads 6 --width 384 --context 256 --batch 8 --vocab 65
    peer.py tssa --width 768 --heads 12 --tokens 1024
    peer.py decode --layers 6 --heads 6 --width 384 --context 256 --tokens 200 --vocab 65
    peer.py check tests/golden/lm_tiny_tostgpt.safetensors …

The peer runs at its best: threads set, glibc told to keep freed memory (fresh pages are dear), the
faster of AdamW's implementations, warm-up, medians. --compile adds torch.compile.
"""

import os
import statistics
import time

import measure

measure.restart_with_kept_memory()
import torch

from measure import faster_adamw, median_seconds, report, status_mb
from model import LanguageModel, causal_tssa, parameter_groups


def make_model(args):
    model = LanguageModel(
        args.model, args.layers, args.heads, args.width, args.context, args.vocab, bias=False
    )
    if args.compile:
        model.hidden = torch.compile(model.hidden)
    return model


def step(args):
    base = status_mb("VmRSS")
    model = make_model(args)
    # As the language recipes have it.
    name, optimizer = faster_adamw(parameter_groups(model, 0.1), betas=(0.9, 0.99))
    ids = torch.randint(args.vocab, (args.batch, args.context))
    targets = torch.randint(args.vocab, (args.batch, args.context))

    def update():
        model.loss(ids, targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    seconds = median_seconds(update, args.repeats)
    report(
        "step",
        model=args.model,
        layers=args.layers,
        width=args.width,
        context=args.context,
        batch=args.batch,
        vocab=args.vocab,
        threads=args.threads,
        compiled=args.compile,
        optimizer=name,
        seconds=seconds,
        peak_mb=status_mb("VmHWM"),
        # What PyTorch holds before there is a model: its libraries.
        base_mb=base,
    )


def tssa(args):
    w = torch.randn(args.batch, args.tokens, args.width, requires_grad=True)
    dy = torch.randn(args.batch, args.tokens, args.width)
    temp = torch.ones(args.heads, 1, requires_grad=True)
    bias = torch.zeros(args.heads, args.tokens, 1, requires_grad=True)
    operator = torch.compile(causal_tssa) if args.compile else causal_tssa

    def forward():
        with torch.no_grad():
            operator(w, temp, bias, args.heads)

    def both():
        operator(w, temp, bias, args.heads).backward(dy)
        w.grad = temp.grad = bias.grad = None

    report(
        "tssa",
        tokens=args.tokens,
        width=args.width,
        heads=args.heads,
        batch=args.batch,
        threads=args.threads,
        compiled=args.compile,
        forward_seconds=median_seconds(forward, args.repeats),
        seconds=median_seconds(both, args.repeats),
        peak_mb=status_mb("VmHWM"),
    )


def decode(args):
    model = make_model(args).eval()
    first = torch.zeros(1, 1, dtype=torch.long)
    model.generate(first, 5)
    rates = []
    for _ in range(args.repeats):
        start = time.perf_counter()
        model.generate(first, args.tokens)
        rates.append(args.tokens / (time.perf_counter() - start))
    report(
        "decode",
        model=args.model,
        layers=args.layers,
        width=args.width,
        context=args.context,
        tokens=args.tokens,
        threads=args.threads,
        compiled=args.compile,
        tokens_per_second=statistics.median(rates),
    )


def check(args):
    """Logits, loss and gradients of the golden files against this model."""
    from safetensors import safe_open

    # A few rounding errors of float32 over two blocks, relative to the largest entry.
    tolerance = 1e-5
    worst_of_all = 0.0
    for path in args.files:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            heads = int(file.metadata()["n_head"])
        weights = {k[len("param.") :]: v for k, v in tensors.items() if k.startswith("param.")}
        kind = "tost" if any(name.endswith("temp") for name in weights) else "gpt2"
        if kind == "gpt2" and any("gamma" in name for name in weights):
            raise SystemExit(f"{path}: softmax attention with LayerScale is not a model of the peer")
        vocab, width = weights["transformer.wte.weight"].shape
        layers = 1 + max(int(name.split(".")[2]) for name in weights if ".h." in name)
        model = LanguageModel(
            kind,
            layers,
            heads,
            width,
            weights["transformer.wpe.weight"].shape[0],
            vocab,
            bias="transformer.ln_f.bias" in weights,
        )
        model.load_state_dict(weights)
        loss = model.loss(tensors["idx"], tensors["target"])
        loss.backward()
        pairs = {"logits": (model.logits(tensors["idx"]), tensors["logits"])}
        pairs["loss"] = (loss.reshape(-1), tensors["loss"].reshape(-1))
        for name, parameter in model.named_parameters():
            pairs[name] = (parameter.grad, tensors["grad." + name])
        worst = max(
            ((ours - theirs).abs().max() / theirs.abs().max()).item()
            for ours, theirs in pairs.values()
        )
        greedy = model.generate(tensors["gen_prompt"], 22, temperature=0)
        same_text = bool((greedy == tensors["gen_greedy"]).all())
        report("check", file=os.path.basename(path), worst=worst, same_text=same_text)
        worst_of_all = max(worst_of_all, worst if same_text else float("inf"))
    if worst_of_all > tolerance:
        raise SystemExit(f"peer.py check: {worst_of_all:.3g} exceeds {tolerance:.3g}")


def main():
    commands = measure.Commands(__doc__.splitlines()[0])
    model = {"model": "tost", "layers": 6, "heads": 6, "width": 384, "context": 256, "vocab": 65}
    commands.add("step", step, batch=8, **model)
    commands.add("tssa", tssa, tokens=1024, width=768, heads=12, batch=1)
    commands.add("decode", decode, tokens=200, **(model | {"repeats": 3}))
    commands.add("check", check).add_argument("files", nargs="+")
    commands.run()


if __name__ == "__main__":
    main()
