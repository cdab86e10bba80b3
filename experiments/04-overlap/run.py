#!/usr/bin/env python3
"""Communication under computation, on links slow enough to be felt; see README.md."""
import argparse
import collections
import csv
import json
import math
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from common import ROOT, plot, write_results

OFF = ["comm.overlap=no"]
FIFO = []
PRIORITY = ["comm.order=priority", "comm.credit_bytes=64K"]
FAR = ["comm.fabric_startup_us=40", "comm.chunk_bytes=0"]
CUTS = {cut: FAR + [f"comm.buckets={cut}"] for cut in ("layer", "size", "one", "merge")}


class Run:
    """One training, and what its trace says: medians over the steps of rank 0, in ms."""

    def __init__(self, args, name, scale, settings):
        out = args.output / name
        shutil.rmtree(out, ignore_errors=True)
        trace = args.output / f"{name}.json"
        first = args.steps // 2  # by then buckets = merge has found its cuts
        settings = [f"comm.topology={HERE / 'pair.topo'}"] + settings + [
            f"comm.fabric_scale={scale:.6g}",
            f"train.max_steps={args.steps}", f"train.output={out}", f"log.trace={trace}",
            f"log.trace_first={first}", f"log.trace_steps={args.steps}"]
        command = [str(args.train), "--config", str(HERE / "overlap.ini")]
        for s in settings:
            command += ["--set", s]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        self.comm = float(re.search(r"predicted +([0-9.e+-]+) ms", text).group(1))
        if CUTS["merge"][-1] in settings:
            self.comm = math.nan  # that was predicted before merging
        self.read_steps(out / "steps.csv", first)
        self.read_trace(trace)

    def read_steps(self, path, first):
        with open(path, newline="") as f:
            rows = [r for r in csv.DictReader(f)][first:]
        for key, column in (("step", "seconds"), ("hidden", "comm_hidden_s"),
                            ("exposed", "comm_exposed_s")):
            setattr(self, key, 1e3 * statistics.median(float(r[column]) for r in rows))

    def read_trace(self, path):
        with open(path) as f:  # strict JSON: a trailing comma or a missing bracket raises
            self.events = [e for e in json.load(f) if e["ph"] != "M" and e["pid"] == 0]
        spans, flights = collections.defaultdict(list), collections.defaultdict(dict)
        for e in self.events:
            step = e["args"]["step"]
            if e["ph"] == "X" and e["name"].split()[0] in ("forward", "backward"):
                spans[e["name"].split()[0], step] += [e["ts"], e["ts"] + e["dur"]]
            elif e["ph"] in "be":
                flights[e["id"]][e["ph"]] = e["ts"]
        self.backward = statistics.median(
            (max(v) - min(v)) / 1e3 for (k, _), v in spans.items() if k == "backward")
        last = max(int(re.match(r"r0b(\d+)s", i).group(1)) for i in flights)
        self.last = min(  # in the other steps it waits for those before it
            (v["e"] - v["b"]) / 1e3 for i, v in flights.items() if f"b{last}s" in i)


def in_turn(args, name, scale, cases):
    """Runs of all cases in turn, `--rounds` times."""
    runs = collections.defaultdict(list)
    for k in range(args.rounds):
        for case, settings in cases.items():
            runs[case].append(Run(args, f"{name}-{case}-{k}", scale, settings))
    return runs


def median(runs, key):
    return statistics.median(getattr(r, key) for r in runs)


def typical(runs):
    """The run whose steps took the median time."""
    return sorted(runs, key=lambda r: r.step)[len(runs) // 2]


def share_hidden(off, on):
    """What overlap saves of what it can save: all but the last bucket."""
    can = on.backward + on.comm - max(on.backward, on.comm) - on.last
    return (off.step - on.step) / can


def told(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def rectangles(run):
    """(lane, kind, from, to) in ms of two steps in the middle of the trace."""
    steps = sorted({e["args"]["step"] for e in run.events if e["ph"] == "X"})
    two = steps[len(steps) // 2:len(steps) // 2 + 2]
    begin = min(e["ts"] for e in run.events
                if e["ph"] == "X" and e["args"]["step"] == two[0] and e["name"][:3] == "for")
    end = max(e["ts"] + e["dur"] for e in run.events
              if e["ph"] == "X" and e["args"]["step"] == two[1] and e["name"][:3] == "bac")
    open_at = {}
    for e in run.events:
        kind = e["name"].split()[0]
        if e["ph"] == "X" and kind in ("forward", "backward") and begin <= e["ts"] < end:
            yield 1, kind, (e["ts"] - begin) / 1e3, (e["ts"] + e["dur"] - begin) / 1e3
        elif e["ph"] == "b":
            open_at[e["id"]] = e["ts"]
        elif e["ph"] == "e" and e["id"] in open_at and begin < e["ts"] and open_at[e["id"]] < end:
            yield 0, "comm", max(0, open_at[e["id"]] - begin) / 1e3, (e["ts"] - begin) / 1e3


def draw(args, cases):
    colours = {"forward": "#4575b4", "backward": "#91bfdb", "comm": "#fc8d59"}
    lines = ["set xlabel 'ms'", "set key outside bottom horizontal", "set style fill solid 0.7",
             f"set yrange [-0.6:{2.5 * len(cases):.1f}]",
             "set ytics (" + ", ".join(f"'{name.replace('%', '%%')}' {2.5 * (len(cases) - 1 - i) + 0.5}"
                                       for i, (name, _) in enumerate(cases)) + ")"]
    parts = []
    for kind, colour in colours.items():
        lines.append(f"${kind} << EOD")
        for i, (_, run) in enumerate(cases):
            base = 2.5 * (len(cases) - 1 - i)
            lines += [f"{a:.3f} {base + lane} {a:.3f} {b:.3f} {base + lane - 0.4} {base + lane + 0.4}"
                      for lane, k, a, b in rectangles(run) if k == kind]
        lines.append("EOD")
        parts.append(f"${kind} using 1:2:3:4:5:6 with boxxyerror lc rgb '{colour}' title '{kind}'")
    lines.append("plot " + ", ".join(parts))
    plot(args.output / "overlap.svg", "900,560", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--train", type=pathlib.Path, default=ROOT / "build/release/bin/train")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "runs/04-overlap")
    args = parser.parse_args()
    if args.steps < 8:
        parser.error("--steps: at least 8, the second half is measured")
    args.output.mkdir(parents=True, exist_ok=True)

    alone = in_turn(args, "alone", 1, {"off": OFF})["off"]
    backward, comm = median(alone, "backward"), alone[0].comm
    print(f"backward {backward:.1f} ms; all sums at full speed {comm:.3f} ms")
    rows = []

    def measure(part, name, scale, cases):
        runs = in_turn(args, name, scale, cases)
        for case, r in runs.items():
            row = {"communication": part, "case": case}
            for key in ("step", "backward", "comm", "hidden", "exposed"):
                row[f"{key}_ms"] = f"{median(r, key):.2f}"
            row["step_min_ms"] = f"{min(x.step for x in r):.2f}"
            row["step_max_ms"] = f"{max(x.step for x in r):.2f}"
            rows.append(row)
            print("{communication:>5} {case:9} step {step_ms:>7} ms ({step_min_ms} to {step_max_ms}), "
                  "backward {backward_ms:>6}, communication {comm_ms:>6}, hidden {hidden_ms:>6}, "
                  "exposed {exposed_ms:>6}".format(**row))
        return runs

    short = measure("60 %", "60", 0.6 * backward / comm, {"off": OFF, "on": FIFO})
    gains = [share_hidden(off, on) for off, on in zip(short["off"], short["on"])]
    print(f"overlap saves {told(gains)} of what can be hidden, all but the last bucket "
          f"({median(short['on'], 'last'):.2f} ms)")

    long = measure("150 %", "150", 1.5 * backward / comm,
                   {"off": OFF, "fifo": FIFO, "priority": PRIORITY})
    ratios = [p.step / f.step for p, f in zip(long["priority"], long["fifo"])]
    print(f"priority with credit takes {told(ratios)} of FIFO's time")

    scale = backward / Run(args, "alone-one", 1, CUTS["one"]).comm
    cuts = measure("far", "far", scale, CUTS)
    merged = cuts.pop("merge")
    ratios = [m.step / min(c[k].step for c in cuts.values()) for k, m in enumerate(merged)]
    print(f"merged buckets take {told(ratios)} of the best other cut's time")
    write_results(args.output, rows)
    draw(args, [("60 %, no overlap", typical(short["off"])), ("60 %, overlap", typical(short["on"])),
                ("150 %, FIFO", typical(long["fifo"])),
                ("150 %, priority", typical(long["priority"])),
                ("far, by layer", typical(cuts["layer"])), ("far, merged", typical(merged))])
    return 0


if __name__ == "__main__":
    sys.exit(main())
