"""Batches of CSV files with a tensor a column: tf.data.experimental.make_csv_dataset."""

import pathlib
import tempfile

import tensorflow as tf

from table import write

folder = pathlib.Path(tempfile.mkdtemp())


def columns(features):
    return {name: {"dtype": values.dtype.name, "values": values.numpy().tolist()} for name, values in features.items()}


def batch(element, label):
    if label is None:
        return columns(element)
    return [columns(element[0]), element[1].numpy().tolist()]


def case(files, batch_size=3, num_epochs=1, drop=False, **options):
    """`drop`: TensorFlow drops the last rows if it never ends, and so takes as many batches as there are."""
    for number, content in enumerate(files):
        (folder / str(number)).write_text(content)
    paths = [str(folder / str(number)) for number in range(len(files))]
    dataset = tf.data.experimental.make_csv_dataset(paths, batch_size, num_epochs=None if drop else num_epochs, shuffle=False, **options)
    rows = sum(len(content.splitlines()) - int(options.get("header", True)) for content in files)
    dataset = dataset.take(rows // batch_size) if drop else dataset
    return {"files": files, "options": {"batch_size": batch_size, "num_epochs": num_epochs, "drop": drop, **options},
            "batches": [batch(element, options.get("label_name")) for element in dataset]}


write("make_csv_dataset", {
    "types": case(["a,b,c,d\n1,3000000000,1.5,1e300\n-2,4,2,2\n3,5,0.25,0\n"]),
    "missing": case(["a,b,c\n1,,1.5\nNA,4,\n,NA,0.25\n7,8,NA\n"], na_value="NA"),
    "of wider types": case(["a,b,c\n1,1,1\n2,3000000000,3000000000\n3,2.5,1e300\n4,4,4\n"]),
    "chosen columns": case(["a,b,c\n1,x,1.5\n2,y,2.5\n"], select_columns=["c", "a"]),
    "no header": case(["1,1.5\n2,2.5\n"], header=False, column_names=["a", "b"]),
    "two files": case(["a,b\n1,2\n3,4\n", "a,b\n5,6\n7,8\n"]),
    "the end dropped": case(["a\n1\n2\n3\n4\n"], drop=True),
    "two epochs": case(["a\n1\n2\n3\n4\n"], num_epochs=2),
    "a label": case(["a,b,c\n1,2,3\n4,5,6\n7,8,9\n0,1,2\n"], label_name="b"),
})
