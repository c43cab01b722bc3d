#!/usr/bin/env python3
"""Writes Fashion-MNIST as a folder of images, for `brigade train --dataset image_folder` and its tests.

usage: fashion_mnist_folder.py FOLDER [--size N] [--train N] [--test N] [--source DIRECTORY]

FOLDER/train/CLASS/00000.png and FOLDER/val/CLASS/00000.png, RGB, numbered as in the data set. Needs Pillow and numpy
(.deps/python, which `./dev setup` fills).
"""
import argparse
import gzip
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / ".deps" / "python"))

SOURCE = pathlib.Path("/usr/share/datasets/fashion-mnist")
CLASSES = ("0_tshirt", "1_trouser", "2_pullover", "3_dress", "4_coat", "5_sandal", "6_shirt", "7_sneaker", "8_bag", "9_boot")


def read_idx(path):
    """The array of an idx file, plain or .gz."""
    import numpy
    opened = gzip.open(path) if path.suffix == ".gz" else open(path, "rb")
    with opened as file:
        dimensions = struct.unpack(">I", file.read(4))[0] & 0xff
        shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
        return numpy.frombuffer(file.read(), numpy.uint8).reshape(shape)


def find(source, name):
    for path in (source / name, source / f"{name}.gz"):
        if path.exists():
            return path
    raise SystemExit(f"{source} has no {name}; install dataset-fashion-mnist")


def write_split(source, prefix, folder, size, most):
    from PIL import Image
    images = read_idx(find(source, f"{prefix}-images-idx3-ubyte"))[:most]
    labels = read_idx(find(source, f"{prefix}-labels-idx1-ubyte"))[:most]
    for name in CLASSES:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number, (pixels, label) in enumerate(zip(images, labels)):
        image = Image.fromarray(pixels).convert("RGB")
        if size != pixels.shape[0]:
            image = image.resize((size, size), Image.Resampling.BILINEAR)
        image.save(folder / CLASSES[label] / f"{number:05d}.png")


def main():
    parser = argparse.ArgumentParser(description="Fashion-MNIST as a folder of images")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--size", type=int, default=28, help="height and width")
    parser.add_argument("--train", type=int, default=60_000, help="images for training")
    parser.add_argument("--test", type=int, default=10_000, help="images for evaluation")
    parser.add_argument("--source", type=pathlib.Path, default=SOURCE)
    options = parser.parse_args()
    write_split(options.source, "train", options.folder / "train", options.size, options.train)
    write_split(options.source, "t10k", options.folder / "val", options.size, options.test)


if __name__ == "__main__":
    main()
