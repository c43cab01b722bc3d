#!/usr/bin/env python3
"""What Adam loses if its gradients are some updates old, without any parameter server: a serial training of an MLP on
Fashion-MNIST in NumPy, in which each update uses the gradients that were computed `--delay` updates before. Asynchronous training
with W workers has a delay of W - 1. Prints the accuracy on the test images for each seed. With --clip-norm, --beta1 and --beta2 it
shows what makes up for the delay. Not part of ./dev bench."""
import argparse
import gzip
import math
import pathlib

import numpy as np

BATCH = 128


def read(folder, name, offset):
    return np.frombuffer(gzip.open(pathlib.Path(folder) / f"{name}.gz").read(), np.uint8, offset=offset)


def dataset(folder, name):
    return read(folder, f"{name}-images-idx3-ubyte", 16).reshape(-1, 784).astype(np.float32) / 255, read(folder, f"{name}-labels-idx1-ubyte", 8)


def activations(parameters, inputs):
    layers = [inputs]
    for i in range(0, len(parameters), 2):
        sums = layers[-1] @ parameters[i] + parameters[i + 1]
        layers.append(sums if i + 2 == len(parameters) else np.maximum(sums, 0))
    return layers


def gradients(parameters, inputs, labels):
    layers = activations(parameters, inputs)
    exponents = np.exp(layers[-1] - layers[-1].max(1, keepdims=True))
    errors = exponents / exponents.sum(1, keepdims=True)
    errors[np.arange(len(labels)), labels] -= 1
    errors /= len(labels)
    found = [None] * len(parameters)
    for i in range(len(parameters) - 2, -1, -2):
        found[i], found[i + 1] = layers[i // 2].T @ errors, errors.sum(0)
        if i:
            errors = (errors @ parameters[i].T) * (layers[i // 2] > 0)
    return found


def clipped(found, most):
    norm = math.sqrt(sum(float((each * each).sum()) for each in found))
    return found if norm <= most else [each * (most / norm) for each in found]


def rate(options, updates, total):
    if updates <= options.warmup:
        return 1e-3 * updates / options.warmup
    return 1e-3 * (0.5 + 0.5 * math.cos(math.pi * (updates - options.warmup) / (total - options.warmup)) if options.cosine else 1)


def accuracy(options, seed):
    draw = np.random.RandomState(seed)
    inputs, labels = dataset(options.data_dir, "train")
    widths = [784, 64, 64, 64, 10]
    parameters = []
    for rows, columns in zip(widths, widths[1:]):
        bound = math.sqrt(6 / (rows + columns))
        parameters += [draw.uniform(-bound, bound, (rows, columns)).astype(np.float32), np.zeros(columns, np.float32)]
    first, second = ([np.zeros_like(each) for each in parameters] for _ in range(2))
    waiting, updates, total = [], 0, options.epochs * math.ceil(len(labels) / BATCH)
    for _ in range(options.epochs):
        order = draw.permutation(len(labels))
        for begin in range(0, len(labels), BATCH):
            batch = order[begin:begin + BATCH]
            waiting.append(clipped(gradients(parameters, inputs[batch], labels[batch]), options.clip_norm))
            if len(waiting) <= options.delay:
                continue
            updates += 1
            for each, mean, square, gradient in zip(parameters, first, second, waiting.pop(0)):
                mean += (1 - options.beta1) * (gradient - mean)
                square += (1 - options.beta2) * (gradient * gradient - square)
                corrected = square / (1 - options.beta2 ** updates)
                each -= rate(options, updates, total) * (mean / (1 - options.beta1 ** updates)) / (np.sqrt(corrected) + 1e-8)
    inputs, labels = dataset(options.data_dir, "t10k")
    return 100 * (activations(parameters, inputs)[-1].argmax(1) == labels).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--delay", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--cosine", action="store_true", help="a cosine decay to 0")
    parser.add_argument("--warmup", type=int, default=0, help="first updates, in which the rate grows from 0")
    parser.add_argument("--clip-norm", type=float, default=math.inf)
    parser.add_argument("--beta1", type=float, default=0.9)
    parser.add_argument("--beta2", type=float, default=0.999)
    options = parser.parse_args()
    print("delay", options.delay, [round(float(accuracy(options, seed)), 2) for seed in (1, 2, 3)])


if __name__ == "__main__":
    main()
