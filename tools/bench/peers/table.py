#!/usr/bin/env python3
"""table.py FOLDER: the results of tools/bench/compare.sh as a Markdown table of medians.

A ratio above 1 means that tost is that many times faster; for memory it is tost's share of the
peer's. "net" leaves out what PyTorch's libraries hold before there is a model.
"""

import json
import pathlib
import statistics
import sys


def medians(path):
    lines = [json.loads(line) for line in path.read_text().splitlines() if line]
    return {
        key: statistics.median(line[key] for line in lines)
        for key, value in lines[0].items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def figures(results):
    """(what, value, unit, ratio of a peer's value to ours) of one side."""
    rows = []
    if "forward_seconds" in results:
        rows.append(("forward", results["forward_seconds"] * 1e3, "ms"))
    if "seconds" in results:
        what = "forward + backward" if "forward_seconds" in results else "step"
        rows.append((what, results["seconds"] * 1e3, "ms"))
    if "tokens_per_second" in results:
        rows.append(("rate", results["tokens_per_second"], "tokens/s"))
    if "ns_per_token" in results:
        rows.append(("per token", results["ns_per_token"], "ns"))
    if "peak_mb" in results:
        rows.append(("peak memory", results["peak_mb"], "MB"))
    if "base_mb" in results:
        rows.append(("net memory", results["peak_mb"] - results["base_mb"], "MB"))
    return {what: (value, unit) for what, value, unit in rows}


def ratio(unit, ours, theirs):
    if unit == "MB":
        return f"{ours / theirs:.2f} of it"
    return f"{(ours / theirs if unit == 'tokens/s' else theirs / ours):.2f} ×"


def main(folder):
    print("| case | figure | tost | peer | | ratio |\n|---|---|---|---|---|---|")
    for name_file in sorted(folder.glob("*.name"), key=lambda path: int(path.stem)):
        name, index = name_file.read_text().strip(), name_file.stem
        ours = figures(medians(folder / f"{index}.tost.jsonl"))
        if "peak memory" in ours:
            ours["net memory"] = ours["peak memory"]  # a native program has no libraries to deduct
        peers = sorted(folder.glob(f"{index}.pytorch*.jsonl"))
        for path in peers:
            side = path.name.split(".")[1]
            for what, (theirs, unit) in figures(medians(path)).items():
                if what in ours:
                    mine = ours[what][0]
                    print(
                        f"| {name} | {what} | {mine:.4g} {unit} | {theirs:.4g} {unit} | {side} "
                        f"| {ratio(unit, mine, theirs)} |"
                    )
        for what, (mine, unit) in ours.items():
            if not peers or what == "per token":
                print(f"| {name} | {what} | {mine:.4g} {unit} | | | |")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
