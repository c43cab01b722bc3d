"""PyTorch: saves and loads the MNIST CNN with Adam's slots, once for each word on standard input, and prints the seconds.

`save`: torch.save, then fsync, a new name in place of the old one, and fsync of the folder, without which a crash may
take the checkpoint. `load`: torch.load. `restore`: torch.load, and the model and the optimizer take what it gave.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time

import pytorch_ddp
import torch


class Speed:
    def __init__(self, parent):
        self.folder = tempfile.mkdtemp(prefix="pytorch-bench-", dir=parent)
        self.path = os.path.join(self.folder, "checkpoint.pt")
        self.model = pytorch_ddp.build("mnist_cnn")
        self.adam = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True)
        self.model(torch.rand(8, 1, 28, 28)).sum().backward()
        self.adam.step()  # the slots hold something
        self.step = 1
        self.save()

    def sync(self, path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def save(self):
        self.step += 1
        new = self.path + ".new"
        torch.save({"model": self.model.state_dict(), "optimizer": self.adam.state_dict(), "step": self.step}, new)
        self.sync(new)
        os.replace(new, self.path)
        self.sync(self.folder)

    def load(self):
        return torch.load(self.path)

    def restore(self):
        saved = self.load()
        self.model.load_state_dict(saved["model"])
        self.adam.load_state_dict(saved["optimizer"])
        self.step = saved["step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", default=".", help="where a folder for checkpoints is made")
    parser.add_argument("--no-crc", action="store_true", help="without the checksums of PyTorch's files")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.serialization.set_crc32_options(not options.no_crc)
    speed = Speed(options.directory)
    try:
        for word in sys.stdin:
            begin = time.perf_counter()
            {"save": speed.save, "load": speed.load, "restore": speed.restore}[word.strip()]()
            print(json.dumps({"seconds": time.perf_counter() - begin}), flush=True)
    finally:
        shutil.rmtree(speed.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
