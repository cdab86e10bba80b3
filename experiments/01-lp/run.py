#!/usr/bin/env python3
"""Linear pipeline, binomial tree and exchange on emulated links; see README.md."""
import argparse
import csv
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from common import ROOT, plot, write_results

COLLECTIVES = ("broadcast", "reduce", "allreduce")
BACKENDS = ("lp", "mst", "be")


def measure(args, collective, topology, devices):
    out = args.output / f"{collective}-{topology}-{devices}.csv"
    command = [str(args.commbench), "--collective", collective, "--backend", ",".join(BACKENDS),
               "--topology", str(HERE / f"{topology}.topo"), "--devices", str(devices),
               "-b", args.bytes, "-e", args.bytes, "-n", "1", "-w", "0", "-c", "0",
               "--place", "in", "--emulate", str(args.scale), "--startup", str(args.startup),
               "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(out, newline="") as f:
        return {r["backend"]: (float(r["time_s"]) / args.scale * 1e3,
                               float(r["predicted_s"]) / args.scale * 1e3)
                for r in csv.DictReader(f)}


def report(topology, collective, times):
    """`times` by number of devices, then backend: (measured, predicted), ms."""
    least, most = min(times), max(times)
    for devices, by in times.items():
        cells = "   ".join(f"{by[b][0]:7.2f} {by[b][1]:7.2f} {by[b][0] / by[b][1]:6.3f}"
                           for b in BACKENDS)
        print(f"{topology:7} {collective:10} {devices:7}   {cells}   "
              f"{by['mst'][0] / by['lp'][0]:6.2f} {by['be'][0] / by['lp'][0]:6.2f}", flush=True)
    print(f"{'':18} lp from {least} to {most} devices: "
          f"{100 * (times[most]['lp'][0] / times[least]['lp'][0] - 1):+.1f} %")


def draw(args, rows):
    lines = ["set multiplot layout 1,3", "set xlabel 'devices'", "set yrange [0:*]",
             "set key top left", "set xtics 1", "set xrange [1.5:8.5]"]
    for collective in COLLECTIVES:
        parts = []
        for i, backend in enumerate(BACKENDS):
            points = [r for r in rows if r["collective"] == collective and
                      r["topology"] == "chain8" and r["backend"] == backend]
            name = f"${backend}_{collective}"
            lines.append(f"{name} << EOD")
            lines += [f"{r['devices']} {r['time_ms']} {r['predicted_ms']}" for r in points]
            lines.append("EOD")
            parts.append(f"{name} using 1:2 with points pt {i + 5} lc {i + 1} title '{backend}'")
            parts.append(f"{name} using 1:3 with lines lc {i + 1} notitle")
        lines += [f"set title '{collective}, ms (lines: predicted)'", "plot " + ", ".join(parts)]
    plot(args.output / "lp.svg", "900,360", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", default="64M")
    parser.add_argument("--scale", type=float, default=200, help="links are so many times slower")
    parser.add_argument("--startup", type=float, default=0.1, help="of a message, microseconds")
    parser.add_argument("--devices", default="2,3,4,6,8", help="of chain8; star8 has 2, 4 and 8")
    parser.add_argument("--commbench", type=pathlib.Path, default=ROOT / "build/release/bin/commbench")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "runs/01-lp")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    rows = []
    print("times in ms: measured, predicted, their ratio\n"
          f"{'topology collective devices':28}   {'lp':23} {'mst':24} {'be':20}   mst/lp  be/lp")
    for topology, devices in (("chain8", args.devices), ("star8", "2,4,8")):
        for collective in COLLECTIVES:
            times = {n: measure(args, collective, topology, n)
                     for n in map(int, devices.split(","))}
            report(topology, collective, times)
            rows += [{"collective": collective, "topology": topology, "backend": b, "devices": n,
                      "time_ms": by[b][0], "predicted_ms": by[b][1]}
                     for n, by in times.items() for b in BACKENDS]
    write_results(args.output, rows)
    draw(args, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
