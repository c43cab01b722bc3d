"""PyTorch: one process, or DistributedDataParallel over Gloo with one process and one thread a replica.

Prints one JSON line (measure.report). The data is synthetic and is in memory, as for ours.
"""

import argparse
import os
import sys

import measure
import ranks

BATCH = {"mnist_cnn": 128, "mlp64": 32, "mlp256": 64, "resnet50": 8, "inception_v3": 8}
IMAGE_SIZE = {"resnet50": 224, "inception_v3": 299}  # torchvision's; 1000 classes
WIDTH = {"mlp64": 64, "mlp256": 256}  # inputs, units of every layer, classes


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(BATCH), default="mnist_cnn")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--batch", type=int, help="examples a replica and step (default: 128, mlp64: 32, mlp256: 64, the large ones: 8)")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--warm-up-seconds", type=float, default=2)
    parser.add_argument("--steps-per-block", type=int, default=5)
    parser.add_argument("--optimizer-path", choices=["default", "foreach", "fused"], default="fused")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--bucket-view", action="store_true", help="DDP's gradient_as_bucket_view")
    parser.add_argument("--static-graph", action="store_true", help="DDP's static_graph")
    parser.add_argument("--pin", action="store_true", help="one core a process")
    parser.add_argument("--name", default="pytorch")
    options = parser.parse_args()
    options.batch = options.batch or BATCH[options.model]
    return options


def build(model):
    from torch import nn

    if model == "inception_v3":
        import torchvision

        return torchvision.models.inception_v3(num_classes=1000, aux_logits=False, init_weights=False)
    if model in IMAGE_SIZE:
        import torchvision

        return torchvision.models.get_model(model, num_classes=1000)
    if model in WIDTH:
        width = WIDTH[model]
        return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                             nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, 10))


def shape_and_classes(model):
    """Of one example."""
    if model in IMAGE_SIZE:
        return (3, IMAGE_SIZE[model], IMAGE_SIZE[model]), 1000
    return ((WIDTH[model],), WIDTH[model]) if model in WIDTH else ((1, 28, 28), 10)


def make_optimizer(options, parameters):
    import torch

    path = {} if options.optimizer_path == "default" else {options.optimizer_path: True}
    if options.model == "mnist_cnn":
        return torch.optim.Adam(parameters, lr=1e-3, **path)
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9 if options.model in IMAGE_SIZE else 0.0, **path)


def make_batches(options, rank):
    import torch

    generator = torch.Generator().manual_seed(rank)
    shape, classes = shape_and_classes(options.model)
    batches = []
    for _ in range(measure.BATCHES):
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

    optimizer = make_optimizer(options, model.parameters())
    loss_of = torch.nn.CrossEntropyLoss()
    batches = make_batches(options, rank)
    position = 0

    def run_steps(count):
        nonlocal position
        for _ in range(count):
            features, labels = batches[position % measure.BATCHES]
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


def main():
    options = parse_arguments()
    if options.replicas > 1 and "RANK" not in os.environ:
        sys.exit(ranks.start([sys.executable, *sys.argv], ranks.torchrun_environments(options.replicas), options.pin,
                             GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1"))
    train_one_rank(options, int(os.environ.get("RANK", 0)) if options.replicas > 1 else 0)


if __name__ == "__main__":
    main()
