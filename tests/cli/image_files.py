"""Folders of images for tests, written without any library."""
import random
import struct
import zlib


def png(width, height, pixel):
    """The bytes of an RGB image; `pixel(x, y)` gives the three values."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes(value for x in range(width) for value in pixel(x, y)) for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def stripes(rng, across, size):
    """Stripes across or along, of a random color, with noise."""
    color = [rng.randrange(100, 200) for _ in range(3)]
    return png(size, size, lambda x, y: [min(255, max(0, (value if (y if across else x) % 4 < 2 else 20) + rng.randrange(-15, 15)))
                                         for value in color])


def write_folder(folder, train=24, val=8, size=20, classes=("across", "along")):
    """`folder`/train and `folder`/val with so many images of each class, with stripes in alternate directions."""
    rng = random.Random(7)
    for split, count in (("train", train), ("val", val)):
        for number, name in enumerate(classes):
            (folder / split / name).mkdir(parents=True)
            for image in range(count):
                (folder / split / name / f"{image:03d}.png").write_bytes(stripes(rng, number % 2 == 0, size))
