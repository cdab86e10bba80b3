#!/usr/bin/python3
"""Training speed and memory of espalier against PyTorch DDP over gloo, round by round on the same
machine. README.md says what is measured; `run.py --help` lists the options."""
import argparse
import json
import math
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from common import ROOT, write_results

PYTHON = "/usr/bin/python3"  # Debian's, which sees Debian's PyTorch
SKIPPED = 77
RANKS = 2
BATCH = {"lenet": 64, "resnet20": 64, "resnet18": 8}  # per rank
AIM = {  # ours / peer
    ("lenet", "fp32"): 1.5, ("resnet20", "fp32"): 1.15, ("resnet18", "fp32"): 1.4,
    ("lenet", "bf16"): 1.3, ("resnet20", "bf16"): 1.3, ("resnet18", "bf16"): 1.3,
}  # fmt: skip
MEMORY_AIM_MIB = 768
JEMALLOC = {
    "LD_PRELOAD": "libjemalloc.so.2",
    "MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1,metadata_thp:auto,thp:always",
}
NEEDED = "apt-get install python3-torch libjemalloc2 libopenblas0-pthread"
FIELDS = (
    "round model compute side images_per_s peak_rss_mib"
    " line_ns read0_gbs read1_gbs clock0_ghz clock1_ghz"
).split()


class Failed(Exception):
    pass


def arguments():
    p = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--models", default="lenet,resnet20,resnet18")
    p.add_argument("--compute", default="fp32,bf16")
    p.add_argument("--seconds", type=float, default=5.0, help="measured time per side and round")
    p.add_argument("--cpus", default="0,1", help="the two cores")
    p.add_argument("--train", default=str(ROOT / "build/release/bin/train"))
    p.add_argument("--probe", default=str(ROOT / "build/release/bin/espalier-probe"))
    p.add_argument("--set", action="append", default=[], help="section.key=value for our side")
    p.add_argument("--patience", type=float, default=0.0,
                   help="wait up to this many seconds before each comparison until the cores are free")
    p.add_argument("--peer-only", action="store_true")
    p.add_argument("--no-memory", action="store_true", help="leave the memory comparison out")
    p.add_argument("--out", default="runs/00-peer", help="folder of results.csv and summary.json")
    a = p.parse_args()
    a.models = a.models.split(",")
    a.compute = a.compute.split(",")
    a.cpus = [int(c) for c in a.cpus.split(",")]
    if set(a.models) - set(BATCH) or set(a.compute) - {"fp32", "bf16"} or len(set(a.cpus)) != RANKS:
        p.error("models are %s, compute is fp32 or bf16, cpus are two" % ", ".join(BATCH))
    if a.rounds < 1 or not a.seconds > 0:
        p.error("at least one round of more than 0 seconds")
    return a


# --- running programs ---


def run(commands, timeout=600):
    """Start all (argv, env, cwd) at once and wait for all. Returns per command its standard output
    and peak memory in MiB. If one fails, the others are stopped and Failed says why."""
    started = []
    for argv, env, cwd in commands:
        out, err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        process = subprocess.Popen(argv, env=env, cwd=cwd, stdout=out, stderr=err)
        started.append([process, out, err, None])
    deadline = time.monotonic() + timeout
    problem = None
    while problem is None and any(s[3] is None for s in started):
        for s in started:
            if s[3] is None:
                pid, status, usage = os.wait4(s[0].pid, os.WNOHANG)
                if pid != 0:
                    s[0].returncode = os.waitstatus_to_exitcode(status)
                    s[3] = usage.ru_maxrss / 1024
                    if s[0].returncode != 0:
                        s[2].seek(0)
                        problem = "exit %d: %s" % (s[0].returncode, s[2].read()[-2000:])
        if time.monotonic() > deadline:
            problem = "no end after %d s" % timeout
        time.sleep(0.02)
    for s in started:
        if s[3] is None:
            s[0].send_signal(signal.SIGKILL)
            s[0].wait()
    if problem is not None:
        raise Failed("%s: %s" % (" ".join(commands[0][0]), problem))
    results = []
    for s in started:
        s[1].seek(0)
        results.append((s[1].read(), s[3]))
    return results


def clean_environment():
    """Ours, without what would slow down either side's libraries."""
    drop = ("OPENBLAS_", "OMP_", "DNNL_", "ONEDNN_", "MALLOC_", "LD_PRELOAD", "ATEN_")
    return {k: v for k, v in os.environ.items() if not k.startswith(drop)}


def probe(a):
    if not os.access(a.probe, os.X_OK):
        sys.exit("run.py: error: no program %s, build it: make" % a.probe)
    return json.loads(run([([a.probe, *map(str, a.cpus)], clean_environment(), None)])[0][0])


def quiet_probe(a, best):
    """A probe, repeated while another program slows one of the cores down, as far as --patience
    goes. best[0] is the highest clock seen so far."""
    deadline = time.monotonic() + a.patience
    while True:
        p = probe(a)
        best[0] = max(best[0], *p["clock_ghz"])
        if min(p["clock_ghz"]) > 0.9 * best[0] or time.monotonic() > deadline:
            return p
        time.sleep(2)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def peer(a, model, compute, ranks=RANKS, tuned=True):
    """Returns images/s and the peak memory of the largest process in MiB."""
    env = dict(clean_environment(), OMP_NUM_THREADS="1", WORLD_SIZE=str(ranks))
    env.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), GLOO_SOCKET_IFNAME="lo")
    if tuned:
        env.update(JEMALLOC)
    argv = [PYTHON, str(HERE / "peer.py"), "--model", model, "--batch", str(BATCH[model])]
    argv += ["--compute", compute, "--seconds", str(a.seconds / 5)]
    commands = []
    for rank in range(ranks):
        commands.append((argv + ["--cpu", str(a.cpus[rank])], dict(env, RANK=str(rank)), None))
    results = run(commands)
    return json.loads(results[0][0])["images_per_s"], max(r[1] for r in results)


def ours(a, model, compute, images_per_s):
    """Train for about the measured time, if we are as fast as `images_per_s`."""
    steps = max(10, math.ceil(a.seconds * images_per_s / (RANKS * BATCH[model])))
    folder = tempfile.mkdtemp(prefix="espalier-peer-")
    argv = ["taskset", "-c", ",".join(map(str, a.cpus)), a.train]
    argv += ["--config", str(HERE / (model + ".ini"))]
    values = ["train.max_steps=%d" % steps, "device.compute=" + compute]
    values += ["train.output=" + folder + "/run", *a.set]
    for value in values:
        argv += ["--set", value]
    try:
        _, rss = run([(argv, clean_environment(), ROOT)])[0]
        with open(folder + "/run/summary.json", encoding="utf-8") as f:
            return find(json.load(f), "images_per_s"), rss
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find(tree, key):
    """The value of `key` at the top of a JSON object, or in the first object below that has it."""
    if key in tree:
        return tree[key]
    for value in tree.values():
        if isinstance(value, dict):
            found = find(value, key)
            if found is not None:
                return found
    return None


# --- what is there ---


def skip_unless_peer():
    """The peer at its best needs PyTorch, jemalloc and a real BLAS; otherwise there is nothing fair to
    compare with."""
    code = (
        "import torch; torch.mm(torch.ones(9, 9), torch.ones(9, 9)); import re;"
        "print(torch.__version__, torch.distributed.is_gloo_available()"
        " if hasattr(torch.distributed, 'is_gloo_available') else True);"
        "print(*sorted({m for m in re.findall(r'\\S+/(lib\\S*blas\\S*|libmkl\\S*|libjemalloc\\S*)',"
        " open('/proc/self/maps').read())}))"
    )
    env = dict(clean_environment(), LD_PRELOAD=JEMALLOC["LD_PRELOAD"])
    try:
        done = subprocess.run([PYTHON, "-c", code], env=env, capture_output=True, text=True)
    except OSError:
        done = None
    lines = done.stdout.split("\n") if done is not None and done.returncode == 0 else []
    libraries = lines[1] if len(lines) > 1 else ""
    missing = None
    if not lines:
        missing = "PyTorch"
    elif "jemalloc" not in libraries:
        missing = "jemalloc"
    elif not any(name in libraries for name in ("openblas", "mkl")):
        real = os.path.realpath("/usr/lib/x86_64-linux-gnu/libblas.so.3")
        missing = None if "openblas" in real or "mkl" in real else "a fast BLAS"
    if missing is not None:
        print("run.py: skipped: %s is missing, install it: %s" % (missing, NEEDED))
        sys.exit(SKIPPED)
    return "PyTorch " + lines[0].split()[0]


def has_bf16():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return "avx512_bf16" in f.read()


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "unknown processor"


# --- measuring ---


def measure_round(a, number, jobs, guess, best, rows):
    """One round: each job on both sides, in an order that alternates, a probe before each."""
    for model, compute in jobs:
        sides = ["peer"] if a.peer_only else ["peer", "ours"]
        p = quiet_probe(a, best)
        got = {}
        for side in sides if number % 2 == 0 else sides[::-1]:
            if side == "peer":
                got[side] = peer(a, model, compute)
            else:
                got[side] = ours(a, model, compute, guess[model, compute])
            rows.append(
                dict(zip(FIELDS, [number, model, compute, side, *got[side], p["line_ns"],
                                  *p["read_gbs"], *p["clock_ghz"]]))
            )  # fmt: skip
            guess[model, compute] = max(guess[model, compute], got[side][0])
        text = "  ".join("%s %8.1f images/s" % (s, got[s][0]) for s in sides)
        if not a.peer_only:
            text += "  ratio %.2f" % (got["ours"][0] / got["peer"][0])
        print("round %d  %-8s %s  %s   [line %3.0f ns, read %4.1f + %4.1f GB/s, %.2f + %.2f GHz]" % (
            number + 1, model, compute, text, p["line_ns"], *p["read_gbs"], *p["clock_ghz"]),
            flush=True)  # fmt: skip


def speeds(rows, job, side):
    return [r["images_per_s"] for r in rows if (r["model"], r["compute"]) == job and r["side"] == side]


def report_speed(a, rows, jobs):
    """Medians over the rounds; the ratio is the median of the rounds' ratios."""
    print("\n%-9s %-5s %12s %12s %7s %15s %6s" % (
        "model", "comp.", "peer img/s", "ours img/s", "ratio", "range", "aim"))  # fmt: skip
    table = []
    for job in jobs:
        theirs, own = speeds(rows, job, "peer"), speeds(rows, job, "ours")
        entry = {"model": job[0], "compute": job[1], "peer": statistics.median(theirs)}
        line = "%-9s %-5s %12.1f" % (*job, entry["peer"])
        if own:
            ratios = [o / t for o, t in zip(own, theirs)]
            entry.update(ours=statistics.median(own), ratio=statistics.median(ratios))
            entry.update(ratio_min=min(ratios), ratio_max=max(ratios), aim=AIM[job])
            line += " %12.1f %7.2f %7.2f-%7.2f %6.2f" % (
                entry["ours"], entry["ratio"], min(ratios), max(ratios), AIM[job])  # fmt: skip
        print(line)
        table.append(entry)
    return table


def report_memory(a, rows):
    """Peak resident memory on ResNet-18: all of ours against one process of the peer."""
    own = [r["peak_rss_mib"] for r in rows if r["side"] == "ours"
           and (r["model"], r["compute"]) == ("resnet18", "fp32")]  # fmt: skip
    result = {
        "peer_1_process_default_malloc": peer(a, "resnet18", "fp32", 1, tuned=False)[1],
        "peer_1_process_jemalloc": peer(a, "resnet18", "fp32", 1)[1],
    }
    print("\npeak memory, ResNet-18, batch 8 per device, fp32")
    print("  peer, 1 process, default malloc  %7.0f MiB" % result["peer_1_process_default_malloc"])
    print("  peer, 1 process, jemalloc        %7.0f MiB" % result["peer_1_process_jemalloc"])
    if own:
        result.update(ours_2_devices=max(own), aim=MEMORY_AIM_MIB)
        print("  ours, 2 devices in 1 process     %7.0f MiB (aim: at most %d and less than the peer)" % (
            max(own), MEMORY_AIM_MIB))  # fmt: skip
    return result


def main():
    a = arguments()
    version = skip_unless_peer()
    if not a.peer_only and not os.access(a.train, os.X_OK):
        sys.exit("run.py: error: no program %s, build it: make" % a.train)
    if "bf16" in a.compute and not has_bf16():
        print("no avx512_bf16 in this processor: bf16 is left out")
        a.compute.remove("bf16")
    jobs = [(m, c) for c in a.compute for m in a.models]
    out = pathlib.Path(a.out)
    print("%s, %s, %d ranks x 1 thread, cores %s" % (processor(), version, RANKS, a.cpus))
    rows, guess, best = [], {}, [0.0]
    for job in jobs:
        guess[job] = peer(a, *job)[0]  # not counted; the next line times our algorithms once
        if not a.peer_only:
            ours(a, *job, guess[job])
    for number in range(a.rounds):
        measure_round(a, number, jobs, guess, best, rows)
        write_results(out, rows)
    summary = {"processor": processor(), "peer": version, "rounds": a.rounds, "set": a.set}
    summary["speed"] = report_speed(a, rows, jobs)
    if not a.no_memory and "resnet18" in a.models:
        summary["memory_mib"] = report_memory(a, rows)
    (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print("\nresults in %s" % out)


try:
    main()
except Failed as problem:
    sys.exit("run.py: error: %s" % problem)
