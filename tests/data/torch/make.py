"""Makes the files of this folder. Run by hand with PyTorch 2; the files are committed.

    python tests/data/torch/make.py

Every element of a tensor named N is (index - 3) / 4 for its row-major index, which all types hold.
"""

import argparse
import os
from collections import OrderedDict

import torch

HERE = os.path.dirname(os.path.abspath(__file__))


def values(*shape, dtype=torch.float32):
    count = 1
    for extent in shape:
        count *= extent
    return ((torch.arange(count, dtype=torch.float64) - 3) / 4).reshape(shape).to(dtype)


def every_type():
    base = values(4, 3)
    state = OrderedDict()
    state["float32"] = values(2, 3)
    state["float64"] = values(2, 3, dtype=torch.float64)
    state["float16"] = values(2, 3, dtype=torch.float16)
    state["bfloat16"] = values(2, 3, dtype=torch.bfloat16)
    state["transposed"] = base.t()  # [3, 4] with strides [1, 3]
    state["rows"] = base[1:3]  # shares the storage of `transposed`
    state["parameter"] = torch.nn.Parameter(values(5))
    state["scalar"] = torch.tensor(2.5)
    state["empty"] = torch.zeros(0, 3)
    state["int64"] = torch.tensor([-(2**40), 0, 7])
    state["int32"] = torch.tensor([-5, 6], dtype=torch.int32)
    state["uint8"] = torch.tensor([0, 255], dtype=torch.uint8)
    state["bool"] = torch.tensor([True, False])
    torch.save(state, os.path.join(HERE, "every_type.pt"))


def shapes(tssa):
    """The tensors of a two-layer model: vocabulary 11, context 6, width 8, two heads."""
    c = 8
    yield "transformer.wte.weight", (11, c)
    yield "transformer.wpe.weight", (6, c)
    for i in range(2):
        h = f"transformer.h.{i}."
        if tssa:
            yield h + "gamma1", (c,)
            yield h + "gamma2", (c,)
        yield h + "ln_1.weight", (c,)
        if tssa:
            yield h + "attn.temp", (2, 1)
            yield h + "attn.denom_bias", (2, 6, 1)
        else:
            yield h + "attn.bias", (1, 1, 6, 6)  # the causal mask that PyTorch < 2 saves
        yield h + "attn.c_attn.weight", (c if tssa else 3 * c, c)
        yield h + "attn.c_proj.weight", (c, c)
        yield h + "ln_2.weight", (c,)
        yield h + "mlp.c_fc.weight", (4 * c, c)
        yield h + "mlp.c_proj.weight", (c, 4 * c)
    yield "transformer.ln_f.weight", (c,)


def state_dict(tssa, prefix="", dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    state = OrderedDict()
    for name, shape in shapes(tssa):
        state[prefix + name] = (torch.randn(shape, generator=generator) / 2).to(dtype)
    state[prefix + "lm_head.weight"] = state[prefix + "transformer.wte.weight"]
    return state


def tost_state():
    torch.save(state_dict(True, dtype=torch.bfloat16), os.path.join(HERE, "tost_state.pt"))


def nanogpt_checkpoint():
    """What nanoGPT's train.py saves of a compiled model, with AdamW's state of one parameter."""
    model = state_dict(False, prefix="_orig_mod.")
    weight = torch.nn.Parameter(values(3, 2))
    optimizer = torch.optim.AdamW([weight], lr=1e-3)
    weight.sum().backward()
    optimizer.step()
    checkpoint = {
        "model": model,
        "optimizer": optimizer.state_dict(),
        "model_args": dict(
            n_layer=2, n_head=2, n_embd=8, block_size=6, bias=False, vocab_size=11, dropout=0.0
        ),
        "iter_num": 250,
        "best_val_loss": torch.tensor(1.25),
        "config": {"out_dir": "out", "learning_rate": 1e-3, "compile": True},
    }
    torch.save(checkpoint, os.path.join(HERE, "nanogpt_checkpoint.pt"))


def vision_shapes():
    """A ToST classifier: width 8, patches of 8, one block of each kind, two heads, three classes."""
    c = 8
    yield "cls_token", (1, 1, c)
    yield "pos_embeder.token_projection.weight", (c, 64, 1, 1)
    yield "pos_embeder.token_projection.bias", (c,)
    for s, (inputs, outputs) in enumerate([(3, 2), (2, 4), (4, 8)]):
        stage = f"patch_embed.proj.{2 * s}."
        yield stage + "0.weight", (outputs, inputs, 3, 3)
        for name in ("weight", "bias", "running_mean", "running_var"):
            yield stage + "1." + name, (outputs,)
        yield stage + "1.num_batches_tracked", ()
    for block in ("blocks.0.", "cls_attn_blocks.0."):
        tost = block.startswith("blocks")
        for name in ("gamma1", "gamma2", "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"):
            yield block + name, (c,)
        if tost:
            yield block + "attn.temp", (2, 1)
        yield block + "attn.qkv.weight", (c if tost else 3 * c, c)
        yield block + "attn.qkv.bias", (c if tost else 3 * c,)
        yield block + ("attn.to_out.0." if tost else "attn.proj.") + "weight", (c, c)
        yield block + ("attn.to_out.0." if tost else "attn.proj.") + "bias", (c,)
        yield block + "mlp.fc1.weight", (4 * c, c)
        yield block + "mlp.fc1.bias", (4 * c,)
        yield block + "mlp.fc2.weight", (c, 4 * c)
        yield block + "mlp.fc2.bias", (c,)
    yield "norm.weight", (c,)
    yield "norm.bias", (c,)
    yield "head.weight", (3, c)
    yield "head.bias", (3,)


def vision_checkpoint():
    """What the official main.py saves, as far as it matters: a model of a wrapper, and arguments."""
    model = OrderedDict()
    for name, shape in vision_shapes():
        counter = name.endswith("num_batches_tracked")
        value = torch.tensor(40) if counter else values(*shape)
        model["module." + name] = value.abs() if name.endswith("running_var") else value
    checkpoint = {"model": model, "epoch": 3, "args": argparse.Namespace(lr=5e-4, model="tost")}
    torch.save(checkpoint, os.path.join(HERE, "vision_checkpoint.pth"))


def refused():
    state = {"weight": values(2)}
    torch.save(state, os.path.join(HERE, "legacy.pt"), _use_new_zipfile_serialization=False)
    torch.save(torch.nn.Sequential(torch.nn.Linear(1, 1)), os.path.join(HERE, "module.pt"))
    torch.jit.script(torch.nn.ReLU()).save(os.path.join(HERE, "script.pt"))


if __name__ == "__main__":
    torch.manual_seed(1)
    every_type()
    tost_state()
    nanogpt_checkpoint()
    vision_checkpoint()
    refused()
