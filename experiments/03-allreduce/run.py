#!/usr/bin/env python3
"""The engine against a kernel by hand and against Open MPI and MPICH; see README.md."""
import argparse
import csv
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from common import ROOT, write_results

OPENMPI = ["mpirun.openmpi"]
TUNED = OPENMPI + "--mca pml ob1 --mca btl vader,self --mca btl_vader_single_copy_mechanism none " \
    "--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm 5 " \
    "--mca coll_tuned_allreduce_algorithm_segmentsize 131072".split()
SHARED = OPENMPI + "--oversubscribe --mca mpi_yield_when_idle 1".split()
MPICH = ["mpirun.mpich"]
NAMES = {4 << 10: "4 KiB", 16 << 10: "16 KiB", 64 << 10: "64 KiB", 256 << 10: "256 KiB",
         1 << 20: "1 MiB", 4 << 20: "4 MiB", 16 << 20: "16 MiB", 64 << 20: "64 MiB",
         256 << 20: "256 MiB"}


def want_two(size):
    return 1 if size <= 16 << 10 else 2 if size <= 16 << 20 else 1.4


# title, collective, devices, backend, -b -e -f, {peer: launcher}, least ratio by size
TABLES = [
    ("allreduce in place, 2 devices", "allreduce", 2, "onehop", ("4K", "256M", 4),
     {"Open MPI": OPENMPI + ["--bind-to", "core"], "Open MPI, tuned": TUNED + ["--bind-to", "core"],
      "MPICH": MPICH + ["-bind-to", "core"]}, want_two),
    ("broadcast, 2 devices", "broadcast", 2, "central", ("1M", "64M", 64),
     {"Open MPI": OPENMPI + ["--bind-to", "core"], "MPICH": MPICH + ["-bind-to", "core"]},
     lambda size: 1.5),
    ("reduce in place, 2 devices", "reduce", 2, "central", ("1M", "64M", 64),
     {"Open MPI": OPENMPI + ["--bind-to", "core"], "MPICH": MPICH + ["-bind-to", "core"]},
     lambda size: 1.5),
    ("allreduce in place, 4 devices on 2 cores", "allreduce", 4, "onehop", ("64K", "256M", 4),
     {"Open MPI": SHARED}, lambda size: 3),
    ("allreduce in place, 8 devices on 2 cores", "allreduce", 8, "onehop", ("64K", "256M", 4),
     {"Open MPI": SHARED}, lambda size: 3),
]


def output_of(command):
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run([str(c) for c in command], env=env, text=True, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}")
    return done.stdout


def times(command):
    """Microseconds by size, of the columns for in place."""
    result = {}
    for line in output_of(command).splitlines():
        if not line.startswith("#"):
            place = line.split("|")[2].split()
            if place[4] != "0":
                sys.exit(f"wrong sums: {line}")
            result[int(line.split()[0])] = float(place[0])
    return result


def probe(args):
    print("probe:", output_of([args.bin / "espalier-probe"]).strip(), flush=True)


def row(size, cells, ratio, want):
    verdict = "yes" if ratio >= want else "NO"
    text = " | ".join(f"{c:.4g}" for c in cells)
    print(f"| {NAMES[size]} | {text} | {ratio:.2f} | {want} | {verdict} |", flush=True)


def head(title, columns):
    print(f"\n{title}\n\n| message | " + " | ".join(columns) + " | ratio | wanted | reached |")
    print("| --- |" + " --- |" * (len(columns) + 3))


def by_hand(args, rows):
    """Ratios are those of the program, which changes from one to the other call by call."""
    seen = {}
    probe(args)
    for _ in range(args.rounds):
        for r in csv.DictReader(output_of([args.bin / "espalier-allreduce"]).splitlines()):
            seen.setdefault(int(r["bytes"]), []).append(r)
            rows.append({"table": "by hand", "bytes": r["bytes"], "program": "ratio",
                         "us": r["ratio"]})
    probe(args)
    head("Engine against a kernel by hand, 2 devices", ["by hand, us", "engine, us"])
    for size, found in seen.items():
        cells = [statistics.median(float(r[k]) for r in found) for k in ("hand_us", "engine_us")]
        row(size, cells, statistics.median(float(r["ratio"]) for r in found), 0.85)


def against_peers(args, table, rows):
    title, collective, devices, backend, (begin, end, factor), peers, want = table
    sizes = ["--collective", collective, "--devices", devices, "-b", begin, "-e", end,
             "-f", factor, "--place", "in", "-w", 1]
    commands = {"espalier": [args.bin / "commbench", "--backend", backend] + sizes}
    for name, launcher in peers.items():
        program = args.bin / ("commbench-mpich" if name == "MPICH" else "commbench-openmpi")
        if shutil.which(launcher[0]) is None or not program.exists():
            print(f"\n{name} is not installed or was not when this was built, left out")
            continue
        commands[name] = launcher + ["-np", devices, program] + sizes
    seen = {name: [] for name in commands}
    print()
    for _ in range(args.rounds):
        probe(args)
        for name, command in commands.items():
            seen[name].append(times(command))
    names = list(commands)
    head(title + ", us", names)
    for size in seen["espalier"][0]:
        columns = {name: [found[size] for found in seen[name]] for name in names}
        for name in names:
            rows += [{"table": title, "bytes": size, "program": name, "us": us}
                     for us in columns[name]]
        ratios = [min(columns[name][k] for name in names[1:]) / columns["espalier"][k]
                  for k in range(args.rounds) if len(names) > 1]
        row(size, [statistics.median(columns[name]) for name in names],
            statistics.median(ratios or [float("nan")]), want(size))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="tables whose title contains this; hand for the first one")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "runs/03-allreduce")
    args = parser.parse_args()
    rows = []
    if args.only is None or args.only in "by hand":
        by_hand(args, rows)
    for table in TABLES:
        if args.only is None or args.only in table[0]:
            against_peers(args, table, rows)
    if not rows:
        sys.exit(f"no table is called {args.only}")
    write_results(args.output, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
