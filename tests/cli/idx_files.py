"""Writes small data sets in MNIST's format, valid and corrupt."""
import gzip
import struct

IMAGES_MAGIC = 2051
LABELS_MAGIC = 2049


def images(count, magic=IMAGES_MAGIC):
    return struct.pack(">IIII", magic, count, 28, 28) + bytes(i % 251 for i in range(count * 28 * 28))


def labels(count, magic=LABELS_MAGIC):
    return struct.pack(">II", magic, count) + bytes(i % 10 for i in range(count))


def write(folder, train=40, test=20):
    """The four files, compressed."""
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, count in (("train", train), ("t10k", test)):
        (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images(count)))
        (folder / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels(count)))
    return folder
