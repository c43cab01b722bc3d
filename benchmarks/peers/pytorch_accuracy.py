"""PyTorch: torchvision's ResNet on a folder of images, by the plan of `brigade train`: SGD with momentum, cosine decay, no
augmentation, one thread. Prints one JSON line with the accuracy on the validation split, and the seconds that it took.

The images are decoded once and stay in memory, normalized as for ImageNet. Weights are those that torchvision begins with.
"""

import argparse
import json
import math
import pathlib
import time


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=pathlib.Path, required=True, help="train/CLASS/*.png and val/CLASS/*.png of one size")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def read_split(folder):
    """All images as [N, 3, H, W] of bytes, and their classes' numbers."""
    import numpy
    import torch
    from PIL import Image

    images, labels = [], []
    for label, name in enumerate(sorted(path.name for path in folder.iterdir() if path.is_dir())):
        for path in sorted((folder / name).iterdir()):
            with Image.open(path) as image:
                images.append(numpy.asarray(image.convert("RGB")))
            labels.append(label)
    return torch.from_numpy(numpy.stack(images)).permute(0, 3, 1, 2).contiguous(), torch.tensor(labels)


def normalize(images):
    import torch

    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    deviation = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    return images.float().div_(255).sub_(mean).div_(deviation)


def order_of_examples(count, epochs):
    """The epochs' permutations one after another: a batch may have the end of one and the beginning of the next."""
    import torch

    return torch.cat([torch.randperm(count) for _ in range(epochs)])


def train(options, model, images, labels):
    import torch

    batches = order_of_examples(len(images), options.epochs).split(options.batch_size)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=options.momentum,
                                weight_decay=options.weight_decay, fused=True)
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / len(batches))))
    model.train()
    for chosen in batches:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(normalize(images[chosen])), labels[chosen]).backward()
        optimizer.step()
        decay.step()
    return len(batches)


def accuracy(model, images, labels):
    import torch

    model.eval()
    with torch.no_grad():
        right = sum((model(normalize(part)).argmax(1) == truth).sum().item()
                    for part, truth in zip(images.split(500), labels.split(500)))
    return right / len(images)


def main():
    options = parse_arguments()
    import torch
    import torchvision

    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    images, labels = read_split(options.data_dir / "train")
    model = torchvision.models.get_model(options.model, num_classes=int(labels.max()) + 1)
    start = time.perf_counter()
    steps = train(options, model, images, labels)
    seconds = time.perf_counter() - start
    print(json.dumps({"eval_accuracy": accuracy(model, *read_split(options.data_dir / "val")), "steps": steps,
                      "training_seconds": round(seconds, 1)}), flush=True)


if __name__ == "__main__":
    main()
