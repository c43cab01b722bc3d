"""PyTorch: one process on one GPU, data on the card. A peer of `brigade bench`, for machines that have torch and nothing else.

Prints one JSON line (measure.report): the median of blocks of steps, with waits for the card at both ends of each.
"""

import argparse
import contextlib

import measure
import torch
from torch import nn

CLASSES = {"mnist_cnn": 10, "resnet50": 1000}
SHAPE = {"mnist_cnn": (1, 28, 28), "resnet50": (3, 224, 224)}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(SHAPE), default="mnist_cnn")
    parser.add_argument("--how", choices=["eager", "compile", "graph"], default="eager",
                        help="eager; with torch.compile; the whole step captured as a CUDA graph")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=100, help="of a block, of which there are at least three")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--warm-up-seconds", type=float, default=1.0)
    return parser.parse_args()


class Bottleneck(nn.Module):
    """A unit of ResNet-50 as in torchvision, which a lent machine may lack."""

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(channels_in, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
            nn.Conv2d(channels, 4 * channels, 1, bias=False), nn.BatchNorm2d(4 * channels))
        self.shortcut = nn.Identity() if channels_in == 4 * channels else nn.Sequential(
            nn.Conv2d(channels_in, 4 * channels, 1, stride, bias=False), nn.BatchNorm2d(4 * channels))

    def forward(self, x):
        return torch.relu(self.branch(x) + self.shortcut(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels_in = 64
    for channels, units, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for unit in range(units):
            layers.append(Bottleneck(channels_in, channels, stride if unit == 0 else 1))
            channels_in = 4 * channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def mnist_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, 10))


class Training:
    """The step of a careful user: fused Adam, gradients set to none, bf16 and channels last for ResNet-50."""

    def __init__(self, options):
        self.device = torch.device(options.device)
        is_large = options.model == "resnet50"
        layout = {"memory_format": torch.channels_last} if is_large else {}
        self.model = (resnet50() if is_large else mnist_cnn()).to(self.device, **layout)
        self.low_precision = is_large
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True, capturable=options.how == "graph")
        self.forward = torch.compile(self.model) if options.how == "compile" else self.model
        make = lambda: (torch.rand(options.batch, *SHAPE[options.model], device=self.device).contiguous(**layout),
                        torch.randint(CLASSES[options.model], (options.batch,), device=self.device))
        self.batches = [make() for _ in range(measure.BATCHES)]
        self.position = 0
        self.graph = None
        if options.how == "graph":
            self.capture()

    def step(self, features, labels):
        precision = torch.autocast(self.device.type, torch.bfloat16) if self.low_precision else contextlib.nullcontext()
        with precision:
            loss = nn.functional.cross_entropy(self.forward(features), labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def capture(self):
        self.inputs = [tensor.clone() for tensor in self.batches[0]]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # as PyTorch's documentation has it: before the capture, on another stream
            for _ in range(3):
                self.step(*self.inputs)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step(*self.inputs)

    def run(self, steps):
        for _ in range(steps):
            batch = self.batches[self.position % len(self.batches)]
            self.position += 1
            if self.graph is None:
                self.step(*batch)
                continue
            for static, values in zip(self.inputs, batch):
                static.copy_(values)
            self.graph.replay()
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def main():
    options = parse_arguments()
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True  # as `--numerics fast` has it
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    training = Training(options)
    times = measure.time_blocks(training.run, options.steps, options.warm_up_seconds, options.seconds)
    on_card = torch.cuda.max_memory_allocated() / 2**20 if training.device.type == "cuda" else 0.0
    measure.report(f"pytorch_{options.how}", 1, options.batch, options.steps, times, measure.peak_rss_mib(),
                   version=torch.__version__, gpu_memory_mib=round(on_card, 1))


if __name__ == "__main__":
    main()
