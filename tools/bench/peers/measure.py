"""What the peers' measurements have in common: a fair process, clocks, memory, one JSON line."""

import argparse
import json
import os
import statistics
import sys
import time

# Fresh pages are dear: glibc keeps freed memory.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "268435456",
}

WARM_UP = 2


def restart_with_kept_memory():
    """glibc reads its settings when a process starts, so the program starts itself again."""
    if any(os.environ.get(name) != value for name, value in MALLOC.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | MALLOC)


def status_mb(field):
    """A memory figure of this process: VmRSS (now) or VmHWM (peak)."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
    raise KeyError(field)


def libraries_mb(compiling):
    """What PyTorch holds before there is a model, with its compiler if that is to be used."""
    if compiling:
        import torch._inductor.compile_fx
    return status_mb("VmRSS")


def forget_peak_memory():
    """VmHWM counts anew: compiling is no part of training."""
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")


def median_seconds(work, repeats):
    seconds = []
    for i in range(WARM_UP + repeats):
        start = time.perf_counter()
        work()
        if i >= WARM_UP:
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def faster_adamw(groups, **settings):
    """AdamW fused or over lists, whichever steps faster here, with its name."""
    import torch

    choices = {}
    for name in ("fused", "foreach"):
        trial = torch.optim.AdamW(groups, lr=0.0, **settings, **{name: True})
        for group in trial.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        choices[name] = median_seconds(trial.step, 5)
        trial.zero_grad(set_to_none=True)
    best = min(choices, key=choices.get)
    return best, torch.optim.AdamW(groups, lr=1e-3, **settings, **{best: True})


def report(bench, **figures):
    import torch

    rounded = {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in figures.items()}
    print(json.dumps({"bench": bench, "torch": torch.__version__, **rounded}), flush=True)


class Commands:
    """Sub-commands whose options are given by their defaults."""

    def __init__(self, description):
        self.parser = argparse.ArgumentParser(description=description)
        self.commands = self.parser.add_subparsers(dest="command", required=True)

    def add(self, name, function, **defaults):
        sub = self.commands.add_parser(name)
        sub.set_defaults(run=function)
        for option, default in {"threads": 2, "repeats": 10, **defaults}.items():
            sub.add_argument("--" + option, type=type(default), default=default)
        sub.add_argument("--compile", action="store_true", help="through torch.compile")
        return sub

    def run(self):
        import torch

        arguments = self.parser.parse_args()
        torch.set_num_threads(arguments.threads)
        torch.manual_seed(0)
        arguments.run(arguments)
