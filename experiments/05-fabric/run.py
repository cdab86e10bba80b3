#!/usr/bin/env python3
"""Planned and measured rates of trees and rings on the NVLinks of a DGX-1V; see README.md."""
import argparse
import csv
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from common import ROOT, write_results

SUBSETS = ("1,4,5,7", "0,1,4,5,7", "0,1,2,3,4,5,6,7")
COLLECTIVES = ("allreduce", "broadcast")
BACKENDS = ("treepack", "ring")


def tool(args, *words):
    return subprocess.run([str(args.bin / words[0]), *map(str, words[1:])], capture_output=True,
                          text=True, check=False)


def make_topology(args, devices):
    """The NVLinks between these GPUs, at the rates that programs reach: 20 GB/s a lane."""
    path = args.output / f"gpus{devices.replace(',', '')}.topo"
    done = tool(args, "topo", "import", ROOT / "topologies/dgx1v.topo", "--links", "nvlink",
                "--devices", devices, "--out", path)
    if done.returncode != 0:
        sys.exit(done.stderr)
    text = re.sub(r"[\d.]+ GB/s( .*?) +effective ([\d.]+ GB/s)", r"\2\1", path.read_text())
    path.write_text(text)
    return path


def planned(args, topology, collective, backend):
    """GB/s, or None where the backend does not fit."""
    done = tool(args, "topo", "plan", "--topology", topology, "--collective", collective,
                "--backend", backend, "--json")
    return json.loads(done.stdout)["algbw_gbs"] if done.returncode == 0 else None


def measured(args, topology, collective, backend):
    """GB/s on emulated links times the scale, and what the cost model says: medians."""
    out = args.output / "last.csv"
    runs = []
    for _ in range(args.repeat):
        done = tool(args, "commbench", "--collective", collective, "--backend", backend,
                    "--topology", topology, "-b", args.bytes, "-e", args.bytes, "-n", 1, "-w", 0,
                    "-c", 0, "--place", "in", "--emulate", args.scale, "--out", out)
        if done.returncode != 0:
            sys.exit(done.stderr)
        with open(out, newline="") as f:
            row = next(csv.DictReader(f))
        gb = float(row["bytes"]) * args.scale * 1e-9
        runs.append((gb / float(row["time_s"]), gb / float(row["predicted_s"])))
    return sorted(runs)[len(runs) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", default="64M")
    parser.add_argument("--scale", type=float, default=1000, help="links are so many times slower")
    parser.add_argument("--repeat", type=int, default=1, help="of every measurement; the median")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "runs/05-fabric")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    rows = []
    print("gpus      collective backend   planned predicted measured (GB/s)  of planned  of predicted")
    for devices in SUBSETS:
        topology = make_topology(args, devices)
        for collective in COLLECTIVES:
            both = {}
            for backend in BACKENDS:
                plan = planned(args, topology, collective, backend)
                head = f"{devices.replace(',', ''):9} {collective:10} {backend:8}"
                if plan is None:
                    print(f"{head} does not fit these links")
                    continue
                rate, predicted = measured(args, topology, collective, backend)
                both[backend] = (plan, rate)
                rows.append({"gpus": devices, "collective": collective, "backend": backend,
                             "planned_gbs": plan, "predicted_gbs": predicted, "measured_gbs": rate})
                print(f"{head} {plan:8.2f} {predicted:9.2f} {rate:8.2f} {rate / plan:19.3f} "
                      f"{rate / predicted:13.3f}", flush=True)
            if len(both) == 2:
                factor = [both["treepack"][k] / both["ring"][k] for k in range(2)]
                print(f"{'':20} treepack / ring: planned {factor[0]:.3f}, measured {factor[1]:.3f}")
    write_results(args.output, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
