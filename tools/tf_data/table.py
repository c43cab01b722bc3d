"""Writes tables of what tf.data gives; the tests of brigade/data compare with them.

Each program beside this one makes one table. They need TensorFlow, the tests do not:

    .deps/bench-venv/bin/python tools/tf_data/windows.py
"""

import json
import pathlib

import tensorflow as tf

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "brigade/data/testing/tables"


def plain(element):
    """An element without TensorFlow: tensors as (nested) lists, bytes as text, datasets as lists of their elements."""
    if isinstance(element, tf.data.Dataset):
        return [plain(each) for each in element]
    if isinstance(element, dict):
        return {key: plain(value) for key, value in element.items()}
    if isinstance(element, (tuple, list)):
        return [plain(each) for each in element]
    value = element.numpy() if hasattr(element, "numpy") else element
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def case(dataset, take=None):
    """The elements of a dataset (of one without end, the first `take`) and its cardinality."""
    elements = dataset if take is None else dataset.take(take)
    return {"elements": [plain(each) for each in elements], "cardinality": int(dataset.cardinality())}


def write(name, cases):
    """Writes the table `name`: a dictionary of cases by name."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in cases.items()]
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
