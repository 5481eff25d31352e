"""Exchanges models with PyTorch and Hugging Face's transformers, and compares logits.

    $PEER_PYTHON tools/bench/peers/exchange_peer.py --tost build/cpu/tost --data FOLDER

needs torch and transformers. FOLDER holds token files (`tost prepare characters`). The models are
tiny. Prints one line per exchange and fails above the stated bound. What is compared:
  logits  of two sides' weights, tost's being those of an official export in the model of model.py,
          which `peer.py check` holds against golden vectors;
  loss    of transformers on random tokens, against what `tost evaluate` prints for them.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
from safetensors.torch import load_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import model as peer

BOUND = 1e-4
failures = 0


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def report(what, difference, bound=BOUND):
    global failures
    failures += difference > bound
    print(f"{what:66s} maximum difference {difference:.2e} (bound {bound:.0e})", flush=True)


def tokens(vocabulary, length):
    return torch.randint(vocabulary, (2, length), generator=torch.Generator().manual_seed(5))


def peer_logits(folder, ids):
    """The logits of an official export, by the formulas of the peer."""
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    net = peer.LanguageModel(
        "tost" if config["mixer"] == "tssa" else "gpt2",
        config["layers"],
        config["heads"],
        config["width"],
        config["context"],
        config["vocabulary"],
        config["bias"],
    )
    for block in net.transformer["h"]:
        block.scaled = config["layer_scale"] is not None
        if block.scaled:
            block.gamma1 = torch.nn.Parameter(torch.ones(config["width"]))
            block.gamma2 = torch.nn.Parameter(torch.ones(config["width"]))
        if config["gelu"] == "tanh":
            block.mlp.forward = lambda x, mlp=block.mlp: mlp.c_proj(
                torch.nn.functional.gelu(mlp.c_fc(x), approximate="tanh")
            )
    net.load_state_dict(load_file(os.path.join(folder, "model.safetensors")))
    with torch.no_grad():
        return net.logits(ids)


def compare_losses(what, tost, ours, theirs, vocabulary, context):
    windows, data = 40, tempfile.mkdtemp()
    ids = torch.randint(
        vocabulary, (windows * context + 1,), generator=torch.Generator().manual_seed(6)
    )
    with open(os.path.join(data, "val.bin"), "wb") as file:
        file.write(ids.to(torch.uint16).numpy().tobytes())
    logits = transformers_logits(theirs, ids[:-1].reshape(windows, context))
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[1:]).item()
    printed = run(tost, "evaluate", "--run", ours, "--data", data)
    shutil.rmtree(data)
    report(f"{what}: loss {loss:.4f}", abs(loss - float(printed.split("loss")[1].split()[0])))


def transformers_logits(folder, ids):
    from transformers import GPT2LMHeadModel

    net, info = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    problems = {key: value for key, value in info.items() if value}
    if problems:
        sys.exit(f"{folder}: transformers reports {problems}")
    with torch.no_grad():
        return net.eval()(ids).logits


def transformers_model(folder, activation, vocabulary=97):
    """A tiny random GPT-2 with every bias and norm away from its first value."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(7)
    net = GPT2LMHeadModel(
        GPT2Config(
            n_layer=3,
            n_head=4,
            n_embd=64,
            n_positions=48,
            vocab_size=vocabulary,
            activation_function=activation,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    net.save_pretrained(folder)


def train(tost, data, output, *more):
    """A tiny model, trained far enough that its biases and scales are not their first values."""
    shape = ("--layers", 3, "--heads", 4, "--width", 64, "--context", 48)
    pace = ("--steps", 60, "--global_batch", 4, "--learning_rate", "0.01", "--warmup", 5)
    run(tost, "train", "language", "--data", data, "--output", output, *shape, *pace, *more)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tost", required=True)
    parser.add_argument("--data", required=True)
    options = parser.parse_args()
    tost = options.tost
    import transformers

    transformers.utils.logging.disable_progress_bar()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    with tempfile.TemporaryDirectory() as root:
        path = lambda name: os.path.join(root, name)

        for activation in ("gelu_new", "gelu"):
            theirs, ours, official, back = (path(f"{activation}_{x}") for x in "abcd")
            transformers_model(theirs, activation)
            run(tost, "import", "--from", theirs, "--output", ours)
            run(tost, "export", "--run", ours, "--output", official, "--check")
            run(
                tost,
                "export",
                "--run",
                ours,
                "--output",
                back,
                "--format",
                "huggingface",
                "--check",
            )
            ids = tokens(97, 48)
            expected = transformers_logits(theirs, ids)
            report(
                f"transformers -> tost (GPT-2, biases, {activation})",
                (peer_logits(official, ids) - expected).abs().max().item(),
            )
            report(
                f"transformers -> tost -> transformers (GPT-2, biases, {activation})",
                (transformers_logits(back, ids) - expected).abs().max().item(),
            )
            compare_losses(
                f"transformers against tost evaluate ({activation})", tost, ours, theirs, 97, 48
            )

        for what, more in (
            ("no biases, LayerScale", ("--model", "gpt2_char_layer_scale")),
            ("biases", ("--model", "gpt2_char", "--bias")),
        ):
            ours, official, theirs = path(what + "1"), path(what + "2"), path(what + "3")
            train(tost, options.data, ours, *more)
            run(tost, "export", "--run", ours, "--output", official, "--check")
            run(
                tost,
                "export",
                "--run",
                ours,
                "--output",
                theirs,
                "--format",
                "huggingface",
                "--check",
            )
            ids = tokens(60, 48)
            report(
                f"tost -> transformers (trained GPT-2, {what})",
                (transformers_logits(theirs, ids) - peer_logits(official, ids)).abs().max().item(),
            )
            compare_losses(
                f"tost evaluate against transformers ({what})", tost, ours, theirs, 60, 48
            )

        theirs, ours, back = path("tokens1"), path("tokens2"), path("tokens3")
        transformers_model(theirs, "gelu_new", vocabulary=50257)
        run(tost, "import", "--from", theirs, "--output", ours)
        run(tost, "export", "--run", ours, "--output", back, "--format", "huggingface")
        from transformers import AutoTokenizer

        ids = AutoTokenizer.from_pretrained(back)("Hello world's 123<|endoftext|>")["input_ids"]
        report(
            "AutoTokenizer on an export: ids of a text",
            int(ids != [15496, 995, 338, 17031, 50256]),
            0,
        )

        ours, official, state = path("tost1"), path("tost2"), path("tost3.pt")
        train(tost, options.data, ours)
        run(tost, "export", "--run", ours, "--output", official, "--check")
        weights = load_file(os.path.join(official, "model.safetensors"))
        for wrapper, dtype, bound in (
            ("", torch.float32, 0),
            ("module._orig_mod.", torch.float64, 0),
            ("_orig_mod.", torch.bfloat16, 0),
        ):
            saved = {wrapper + name: value.to(dtype) for name, value in weights.items()}
            saved[wrapper + "lm_head.weight"] = saved[wrapper + "transformer.wte.weight"]
            torch.save(saved, state)
            again, exported = path(f"{dtype}_run"), path(f"{dtype}_export")
            run(tost, "import", "--from", state, "--output", again)
            run(tost, "export", "--run", again, "--output", exported)
            read = load_file(os.path.join(exported, "model.safetensors"))
            report(
                f"torch.save -> tost (ToST, {dtype}, prefix '{wrapper}')",
                max(
                    (read[name] - value.to(dtype).float()).abs().max().item()
                    for name, value in weights.items()
                ),
                bound,
            )
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
