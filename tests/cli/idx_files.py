"""Writes small data sets in MNIST's format, valid and corrupt, and a small part of a real one."""
import gzip
import pathlib
import struct

IMAGES_MAGIC = 2051
LABELS_MAGIC = 2049
FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")


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


def write_fashion_mnist(folder, **counts):
    """The first examples of Fashion-MNIST's files (train=..., t10k=...), as a data set of its own: reading all 60,000 takes longer
    than many a test's training."""
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, count in counts.items():
        for name, magic, sizes in ((f"{prefix}-images-idx3-ubyte", IMAGES_MAGIC, (28, 28)), (f"{prefix}-labels-idx1-ubyte", LABELS_MAGIC, ())):
            with gzip.open(FASHION_MNIST / f"{name}.gz") as file:
                old = struct.unpack(f">{2 + len(sizes)}I", file.read(4 * (2 + len(sizes))))
                assert (old[0], *old[2:]) == (magic, *sizes) and old[1] >= count, f"{name} is another file: {old}"
                values = file.read(count * (28 * 28 if sizes else 1))
            (folder / name).write_bytes(struct.pack(f">{len(old)}I", magic, count, *sizes) + values)
    return folder
