"""Writes the PyTorch files that torch_import_test reads: python make_torch_files.py DIRECTORY (torch 2.11)."""
import collections
import pathlib
import sys

import torch


def files():
    shared = torch.arange(6, dtype=torch.float32)
    dtypes = {"float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
              "int64": torch.int64, "int32": torch.int32, "int16": torch.int16, "int8": torch.int8, "uint8": torch.uint8}
    every_dtype = {name: torch.tensor([[1, 2, 3]], dtype=dtype) for name, dtype in dtypes.items()}
    every_dtype["bool"] = torch.tensor([[True, False, True]])
    yield "dtypes", every_dtype
    yield "views", {"whole": shared, "transposed": shared.view(2, 3).t(), "last": shared[4:], "strided": shared[::2],
                    "scalar": shared[5], "empty": torch.empty(0, 3)}
    torch.manual_seed(0)
    model = torch.nn.Sequential(collections.OrderedDict(conv=torch.nn.Conv2d(1, 2, 3), norm=torch.nn.BatchNorm2d(2)))
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.fill_(index + 1)
    yield "model", model.state_dict()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.125)
    model(torch.ones(1, 1, 5, 5)).sum().backward()
    optimizer.step()
    yield "nested", {"model": {"w": torch.nn.Parameter(torch.ones(2))}, "optimizer": optimizer.state_dict(), "epoch": 3,
                     "name": "run", "none": None, "big": 2 ** 40, "list": [torch.zeros(1), (torch.ones(1),)]}
    yield "bare", torch.tensor([1.5, 2.5])
    yield "expanded", {"expanded": torch.ones(1).expand(4)}
    yield "complex", {"complex": torch.ones(2, dtype=torch.complex64)}
    yield "code", {"device": torch.device("cpu"), "w": torch.ones(1)}


if __name__ == "__main__":
    directory = pathlib.Path(sys.argv[1])
    for name, value in files():
        torch.save(value, directory / f"{name}.pt")
    torch.save({"w": torch.ones(1)}, directory / "legacy.pt", _use_new_zipfile_serialization=False)
