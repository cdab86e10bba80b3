#!/usr/bin/env python3
"""Linear pipeline, binomial tree and exchange on emulated links; see README.md."""
import argparse
import csv
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CASES = [  # collective, topology, backends
    ("broadcast", "star8", "lp,mst,be"),
    ("reduce", "star8", "lp,mst,be"),
    ("allreduce", "star8", "lp,mst,be"),
    ("allreduce", "chain8", "lp"),
]


def measure(args, collective, topology, backends, devices):
    out = args.output / f"{collective}-{topology}-{devices}.csv"
    command = [str(args.commbench), "--collective", collective, "--backend", backends,
               "--topology", str(HERE / f"{topology}.topo"), "--devices", str(devices),
               "-b", args.bytes, "-e", args.bytes, "-n", "1", "-w", "0", "-c", "0",
               "--place", "in", "--emulate", str(args.scale), "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(out, newline="") as f:
        return list(csv.DictReader(f))


def plot(args, rows):
    if shutil.which("gnuplot") is None:
        print("no gnuplot, no plot")
        return
    lines = ["set terminal svg size 900,360", f"set output '{args.output / 'lp.svg'}'",
             "set multiplot layout 1,3", "set xlabel 'devices'", "set yrange [0:*]",
             "set key top left", "set xtics (2,4,8)", "set logscale x 2"]
    for collective in ("broadcast", "reduce", "allreduce"):
        parts = []
        for i, backend in enumerate(("lp", "mst", "be")):
            points = [r for r in rows if r["collective"] == collective and
                      r["topology"] == "star8" and r["backend"] == backend]
            name = f"${backend}_{collective}"
            lines.append(f"{name} << EOD")
            lines += [f"{r['ranks']} {r['time']} {r['predicted']}" for r in points]
            lines.append("EOD")
            parts.append(f"{name} using 1:2 with points pt {i + 5} lc {i + 1} title '{backend}'")
            parts.append(f"{name} using 1:3 with lines lc {i + 1} notitle")
        lines += [f"set title '{collective}, ms (lines: predicted)'", "plot " + ", ".join(parts)]
    subprocess.run(["gnuplot"], input="\n".join(lines), text=True, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", default="64M")
    parser.add_argument("--scale", type=float, default=100, help="links are so many times slower")
    parser.add_argument("--devices", default="2,4,8")
    parser.add_argument("--commbench", type=pathlib.Path, default=ROOT / "build/release/bin/commbench")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "runs/01-lp")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    rows = []
    print("collective topology backend devices  time_ms predicted_ms  ratio")
    for collective, topology, backends in CASES:
        for devices in map(int, args.devices.split(",")):
            for r in measure(args, collective, topology, backends, devices):
                time = float(r["time_s"]) / args.scale * 1e3
                predicted = float(r["predicted_s"]) / args.scale * 1e3
                rows.append({"collective": collective, "topology": topology,
                             "backend": r["backend"], "ranks": devices, "time": time,
                             "predicted": predicted})
                print(f"{collective:10} {topology:8} {r['backend']:7} {devices:7} {time:8.3f} "
                      f"{predicted:12.3f} {time / predicted:6.3f}", flush=True)
    with open(args.output / "results.csv", "w", newline="") as f:
        writer = csv.DictWriter(f, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    plot(args, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
