"""What the scripts of the experiments share: where the tree is, results.csv, plots."""
import csv
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def write_results(folder, rows):
    """results.csv in the folder, which is made if it is not there: a line for each dictionary."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "results.csv", "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def plot(path, size, lines):
    """An SVG of what these lines make gnuplot draw, if it is installed."""
    if shutil.which("gnuplot") is None:
        print("no gnuplot, no plot")
        return
    script = [f"set terminal svg size {size}", f"set output '{path}'"] + lines
    subprocess.run(["gnuplot"], input="\n".join(script), text=True, check=True)
    print(f"plot: {path}")
