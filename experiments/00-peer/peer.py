#!/usr/bin/python3
"""One rank of the peer: PyTorch DistributedDataParallel over gloo, a fixed batch in memory, whole
training steps. Started by run.py, one process per rank; rank 0 prints one line of JSON.

The networks are the same as ours, layer by layer: see models/lenet.c, models/cifar_resnet.c and
models/resnet.c. They are written out here so that torchvision is not needed.
"""
import argparse
import json
import os
import resource
import statistics
import time


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--model", required=True, choices=["lenet", "resnet20", "resnet18"])
    p.add_argument("--batch", type=int, required=True, help="samples per rank")
    p.add_argument("--compute", default="fp32", choices=["fp32", "bf16"])
    p.add_argument("--cpu", type=int, default=-1, help="pin to this core")
    p.add_argument("--warmup", type=float, default=2.0, help="seconds")
    p.add_argument("--segments", type=int, default=5)
    p.add_argument("--seconds", type=float, default=1.0, help="length of a segment")
    return p.parse_args()


def build(nn, model):
    """Returns the network, the shape of a sample and the number of classes."""

    class Basic(nn.Module):
        def __init__(self, c_in, c, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(c_in, c, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(c)
            self.conv2 = nn.Conv2d(c, c, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(c)
            self.relu = nn.ReLU(inplace=True)
            self.shortcut = None
            if stride != 1 or c_in != c:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(c_in, c, 1, stride, bias=False), nn.BatchNorm2d(c)
                )

        def forward(self, x):
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            y += x if self.shortcut is None else self.shortcut(x)
            return self.relu(y)

    def stages(widths, blocks):
        layers, c_in = [], widths[0]
        for i, c in enumerate(widths):
            for b in range(blocks):
                layers.append(Basic(c_in, c, 2 if i > 0 and b == 0 else 1))
                c_in = c
        return layers + [nn.AdaptiveAvgPool2d(1), nn.Flatten()]

    if model == "lenet":
        net = nn.Sequential(
            nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(800, 500), nn.ReLU(inplace=True), nn.Linear(500, 10),
        )  # fmt: skip
        return net, (1, 28, 28), 10, 431080
    if model == "resnet20":
        stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
        net = nn.Sequential(*stem, *stages([16, 32, 64], 3), nn.Linear(64, 10))
        return net, (3, 32, 32), 10, 272474
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    stem.append(nn.MaxPool2d(3, 2, 1))
    net = nn.Sequential(*stem, *stages([64, 128, 256, 512], 2), nn.Linear(512, 1000))
    return net, (3, 224, 224), 1000, 11689512


def main():
    a = arguments()
    if a.cpu >= 0:
        os.sched_setaffinity(0, {a.cpu})
    import torch
    import torch.distributed as dist
    from torch import nn

    torch.set_num_threads(1)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.manual_seed(1)
    net, shape, classes, n_params = build(nn, a.model)
    assert sum(p.numel() for p in net.parameters()) == n_params, "not the network of models/"
    net = net.to(memory_format=torch.channels_last)
    torch.manual_seed(100 + rank)
    x = torch.randn(a.batch, *shape).contiguous(memory_format=torch.channels_last)
    target = torch.randint(0, classes, (a.batch,))

    if ranks > 1:
        dist.init_process_group("gloo")
        net = nn.parallel.DistributedDataParallel(
            net, gradient_as_bucket_view=True, static_graph=True
        )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        if a.compute == "bf16":
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = net(x)
            loss = loss_of(y.float(), target)
        else:
            loss = loss_of(net(x), target)
        loss.backward()
        optimizer.step()
        return loss

    def timed(n):
        if ranks > 1:
            dist.barrier()
        start = time.perf_counter()
        for _ in range(n):
            loss = step()
        loss.item()
        if ranks > 1:
            dist.barrier()
        return time.perf_counter() - start

    def agree(n):
        """The number of steps that rank 0 wants."""
        t = torch.tensor([n])
        if ranks > 1:
            dist.broadcast(t, 0)
        return max(1, int(t.item()))

    timed(3)
    rate = 3 / timed(3)  # steps/s, a first guess
    n = agree(int(a.warmup * rate))
    rate = n / timed(n)
    n = agree(int(a.seconds * rate))
    segments = [ranks * a.batch * n / timed(n) for _ in range(a.segments)]
    if rank == 0:
        result = {
            "images_per_s": statistics.median(segments),
            "segments": segments,
            "steps": n * a.segments,
            "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "torch": torch.__version__,
        }
        print(json.dumps(result), flush=True)
    if ranks > 1:
        dist.destroy_process_group()


main()
