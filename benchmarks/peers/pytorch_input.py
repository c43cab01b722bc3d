"""PyTorch: DataLoader's side of the input figures, as tensorflow_input.py has tf.data's: `jpeg` (Pillow decodes, crops and flips;
the worker processes make batches) and `mnist` (a TensorDataset, shuffled). For each word on standard input takes a block of batches
and prints the seconds.
"""

import argparse
import gzip
import json
import pathlib
import random
import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

BLOCKS = {"jpeg": 40, "mnist": 1500}  # batches
FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")


class Images(Dataset):
    MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1) * 255
    STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1) * 255

    def __init__(self, folder):
        self.paths = sorted((folder / "jpeg").glob("*/*.jpg"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        from PIL import Image
        with Image.open(self.paths[index]) as image:
            left, top = random.randint(0, image.width - 224), random.randint(0, image.height - 224)
            window = image.convert("RGB").crop((left, top, left + 224, top + 224))
        if random.random() < 0.5:
            window = window.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(window)).permute(2, 0, 1)
        return (pixels.float() - self.MEAN) / self.STD


def jpeg(options):
    return DataLoader(Images(options.directory), 32, shuffle=True, num_workers=options.workers, persistent_workers=options.workers > 0)


def mnist(options):
    def idx(name, offset):
        return np.frombuffer(gzip.decompress((FASHION_MNIST / name).read_bytes()), np.uint8, offset=offset)

    images = torch.from_numpy(idx("train-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28).astype(np.float32) / 255)
    labels = torch.from_numpy(idx("train-labels-idx1-ubyte.gz", 8).astype(np.int64))
    # In this process: workers would send every batch to it, which was slower.
    return DataLoader(TensorDataset(images, labels), 128, shuffle=True)


def endless(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("."), help="where input_speed --make has written")
    parser.add_argument("--workers", type=int, default=2, help="processes that decode")
    options = parser.parse_args()
    torch.set_num_threads(1)
    iterators = {}
    for word in sys.stdin:
        word = word.strip()
        if word not in iterators:
            iterators[word] = endless({"jpeg": jpeg, "mnist": mnist}[word](options))
            next(iterators[word])
        begin = time.perf_counter()
        for _ in range(BLOCKS[word]):
            next(iterators[word])
        print(json.dumps({"seconds": time.perf_counter() - begin}), flush=True)


if __name__ == "__main__":
    main()
