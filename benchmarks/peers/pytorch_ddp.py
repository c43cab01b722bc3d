"""PyTorch: one process, or DistributedDataParallel over Gloo with one process and one thread a replica.

Prints one JSON line (measure.report). The data is synthetic and lies in memory, as it does for ours.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys

import measure

BATCHES = 8  # batches in memory that each replica goes round


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=["mnist_cnn", "mlp64"], default="mnist_cnn")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--batch", type=int, help="examples a replica and step (default: 128, mlp64: 32)")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--warm-up-seconds", type=float, default=2)
    parser.add_argument("--steps-per-block", type=int, default=5)
    parser.add_argument("--optimizer-path", choices=["default", "foreach", "fused"], default="fused")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--bucket-view", action="store_true", help="DDP's gradient_as_bucket_view")
    parser.add_argument("--static-graph", action="store_true", help="DDP's static_graph")
    parser.add_argument("--name", default="pytorch")
    parser.add_argument("--rank", type=int, help="set for the processes this program starts")
    options = parser.parse_args()
    options.batch = options.batch or (128 if options.model == "mnist_cnn" else 32)
    return options


def build(model):
    from torch import nn

    if model == "mlp64":
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                             nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, 10))


def make_batches(options, rank):
    import torch

    generator = torch.Generator().manual_seed(rank)
    shape, classes = ((1, 28, 28), 10) if options.model == "mnist_cnn" else ((64,), 64)
    batches = []
    for _ in range(BATCHES):
        features = torch.rand(options.batch, *shape, generator=generator)
        if options.channels_last and len(shape) == 3:
            features = features.contiguous(memory_format=torch.channels_last)
        batches.append((features, torch.randint(classes, (options.batch,), generator=generator)))
    return batches


def train_one_rank(options, rank):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = build(options.model)
    if options.channels_last:
        model = model.to(memory_format=torch.channels_last)
    agree = lambda flag: flag
    if options.replicas > 1:
        dist.init_process_group("gloo", rank=rank, world_size=options.replicas)
        model = torch.nn.parallel.DistributedDataParallel(
            model, gradient_as_bucket_view=options.bucket_view, static_graph=options.static_graph)

        def agree(flag):
            decision = torch.tensor([int(flag)])
            dist.broadcast(decision, src=0)
            return bool(decision.item())

    path = {} if options.optimizer_path == "default" else {options.optimizer_path: True}
    kind = torch.optim.Adam if options.model == "mnist_cnn" else torch.optim.SGD
    optimizer = kind(model.parameters(), lr=1e-3, **path)
    loss_of = torch.nn.CrossEntropyLoss()
    batches = make_batches(options, rank)
    position = 0

    def run_steps(count):
        nonlocal position
        for _ in range(count):
            features, labels = batches[position % BATCHES]
            position += 1
            optimizer.zero_grad(set_to_none=True)
            loss_of(model(features), labels).backward()
            optimizer.step()

    times = measure.time_blocks(run_steps, options.steps_per_block, options.warm_up_seconds,
                                options.seconds, agree)
    peak = torch.tensor([measure.peak_rss_mib()])
    if options.replicas > 1:
        dist.all_reduce(peak)
    if rank == 0:
        measure.report(options.name, options.replicas, options.batch, options.steps_per_block, times,
                       peak.item(), version=torch.__version__)
    if options.replicas > 1:
        dist.barrier()
        dist.destroy_process_group()
        # Left to itself, the interpreter's end sometimes aborts on a thread of torch's; all is measured by now.
        os._exit(0)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start_ranks(options):
    """One process a rank; none of them outlives this one unless it is killed outright."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    environment = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
                       GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    ranks = [subprocess.Popen([sys.executable, *sys.argv, "--rank", str(rank)], env=environment)
             for rank in range(options.replicas)]
    try:
        return max(abs(process.wait()) for process in ranks)
    finally:
        for process in ranks:
            if process.poll() is None:
                process.kill()
                process.wait()


def main():
    options = parse_arguments()
    if options.replicas > 1 and options.rank is None:
        sys.exit(start_ranks(options))
    train_one_rank(options, options.rank or 0)


if __name__ == "__main__":
    main()
