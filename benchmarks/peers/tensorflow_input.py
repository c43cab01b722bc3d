"""TensorFlow: tf.data's side of the input figures. For each word on standard input takes a block of elements and prints the
seconds.

`jpeg`: images of a folder, a random window of 224x224 decoded (decode_and_crop_jpeg), flipped at random, normalized, in
batches of 32. `records`, `records_single`: examples with a image of 784 bytes and a label out of TFRecord files, in batches
of 128; parsed a batch at a time, which is TensorFlow's fast way, or one at a time. `mnist`: Fashion-MNIST in memory,
shuffled by 10,000, in batches of 128. All threads and buffers are tf.data's own choice (AUTOTUNE), the loop is compiled.
"""

import argparse
import gzip
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

BLOCKS = {"jpeg": 40, "records": 300, "records_single": 300, "mnist": 1500}  # batches
AUTOTUNE = tf.data.AUTOTUNE
FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")
FEATURES = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def jpeg(folder, deterministic):
    paths = sorted(str(path) for path in (folder / "jpeg").glob("*/*.jpg"))
    mean, std = tf.constant([0.485, 0.456, 0.406]) * 255, tf.constant([0.229, 0.224, 0.225]) * 255

    def load(path):
        data = tf.io.read_file(path)
        shape = tf.io.extract_jpeg_shape(data)
        top = tf.random.uniform([], 0, shape[0] - 224 + 1, tf.int32)
        left = tf.random.uniform([], 0, shape[1] - 224 + 1, tf.int32)
        image = tf.image.decode_and_crop_jpeg(data, tf.stack([top, left, 224, 224]), channels=3)
        image = tf.image.random_flip_left_right(image)
        return (tf.cast(image, tf.float32) - mean) / std

    files = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths)).repeat()
    return files.map(load, AUTOTUNE, deterministic).batch(32).prefetch(AUTOTUNE)


def pixels(image):
    return tf.cast(tf.io.decode_raw(image, tf.uint8), tf.float32) / 255


def records(folder, deterministic):
    def parse(batch):
        features = tf.io.parse_example(batch, FEATURES)
        return pixels(features["image"]), features["label"]

    files = tf.data.Dataset.from_tensor_slices(sorted(str(path) for path in (folder / "records").glob("*"))).repeat()
    examples = files.interleave(tf.data.TFRecordDataset, 2, num_parallel_calls=AUTOTUNE, deterministic=deterministic)
    return examples.batch(128, drop_remainder=True).map(parse, AUTOTUNE, deterministic).prefetch(AUTOTUNE)


def records_single(folder, deterministic):
    def parse(record):
        features = tf.io.parse_single_example(record, FEATURES)
        return pixels(features["image"]), features["label"]

    files = tf.data.Dataset.from_tensor_slices(sorted(str(path) for path in (folder / "records").glob("*"))).repeat()
    examples = files.interleave(tf.data.TFRecordDataset, 2, num_parallel_calls=AUTOTUNE, deterministic=deterministic)
    return examples.map(parse, AUTOTUNE, deterministic).batch(128).prefetch(AUTOTUNE)


def mnist(_, __):
    def idx(name, offset):
        return np.frombuffer(gzip.decompress((FASHION_MNIST / name).read_bytes()), np.uint8, offset=offset)

    images = idx("train-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28).astype(np.float32) / 255
    labels = idx("train-labels-idx1-ubyte.gz", 8).astype(np.int64)
    return tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(10_000).repeat().batch(128).prefetch(AUTOTUNE)


def taker(dataset, batches):
    iterator = iter(dataset)

    @tf.function
    def take():
        total = tf.constant(0.0)
        for _ in tf.range(batches):
            batch = next(iterator)
            total += tf.reshape(tf.nest.flatten(batch)[0], [-1])[0]
        return total

    return take


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("."), help="where input_speed --make has written")
    parser.add_argument("--relaxed", action="store_true", help="let elements overtake each other")
    options = parser.parse_args()
    takers = {}
    for word in sys.stdin:
        word = word.strip()
        if word not in takers:
            takers[word] = taker(globals()[word](options.directory, not options.relaxed), BLOCKS[word])
            takers[word]()
        begin = time.perf_counter()
        takers[word]().numpy()
        print(json.dumps({"seconds": time.perf_counter() - begin}), flush=True)


if __name__ == "__main__":
    main()
