"""Lines, records of fixed length, TFRecord files and CSV: what is in the files, and what tf.data makes of it."""

import pathlib
import tempfile

import tensorflow as tf

from table import plain, write

folder = pathlib.Path(tempfile.mkdtemp())
FAILED = "(failed)"


def stored(name, content):
    path = folder / name
    path.write_bytes(content)
    return str(path)


def elements_of(dataset):
    """The elements; those that fail as FAILED."""
    iterator, elements = iter(dataset), []
    while len(elements) < 100:
        try:
            elements.append(plain(next(iterator)))
        except StopIteration:
            break
        except tf.errors.OpError:
            elements.append(FAILED)
    return elements


def case(content, make, **more):
    dataset = make(stored("file", content))
    return {"file": content.hex(), "elements": elements_of(dataset), "cardinality": int(dataset.cardinality()), **more}


def lines(content):
    return case(content, tf.data.TextLineDataset)


def fixed(content, record, header=0, footer=0):
    return case(content, lambda path: tf.data.FixedLengthRecordDataset(path, record, header, footer),
                record=record, header=header, footer=footer)


def records(texts, compression=""):
    path = str(folder / "records")
    with tf.io.TFRecordWriter(path, compression) as writer:
        for text in texts:
            writer.write(text)
    content = pathlib.Path(path).read_bytes()
    return case(content, lambda stored_at: tf.data.TFRecordDataset(stored_at, compression_type=compression))


KINDS = {"int32": tf.int32, "int64": tf.int64, "float": tf.float32, "double": tf.float64, "string": tf.string}


def csv(content, columns, **options):
    """`columns`: "int64" must be there, ["int64", 5] has a default."""
    defaults = [KINDS[column] if isinstance(column, str) else tf.constant([column[1]], KINDS[column[0]]) for column in columns]
    return case(content, lambda path: tf.data.experimental.CsvDataset(path, defaults, **options), columns=columns, options=options)


write("text", {
    "lines": lines(b"one\ntwo\r\n\n\r\nlast"),
    "lines, the last one ended": lines(b"one\n\n"),
    "lines of an empty file": lines(b""),
    "fixed": fixed(b"112233", 2),
    "fixed, header and footer": fixed(b"HH1122F", 2, 2, 1),
    "records": records([b"one", b"", b"x" * 300]),
    "records, gzip": records([b"one", b"", b"x" * 300], "GZIP"),
    "records, zlib": records([b"one", b"", b"x" * 300], "ZLIB"),
    "csv": csv(b'1,2.5,x\n2,,"a ""q"" b"\r\n3,1,"line\nbreak"\n', ["int64", ["float", 0.5], "string"]),
    "csv, fields too few and too many": csv(b"1,2\n1\n1,2,3\n\n4,5\n1,2,\n6,7", ["int64", "int64"]),
    "csv, spaces, signs and empty quotes": csv(b'a,2\n 7 ,+8\n"",3\n9,""\n-1,-0', [["int32", -1], ["int32", -2]]),
    "csv, ends by return": csv(b"1\r2\r3", ["int64"]),
    "csv, another value for missing": csv(b"a,NA,1\n,2,3\n", [["string", "d"], ["int32", 5], "int64"], na_value="NA"),
    "csv, quotes off": csv(b'a,"b"c\n', ["string", "string"], use_quote_delim=False),
    "csv, header and chosen columns": csv(b"a,b,c,d\nd,e,f,2\n", ["string", "int64"], select_cols=[1, 3], header=True),
    "csv, chosen columns of uneven rows": csv(b"a,b,c,1,9,9\nd,e\nd,e,f,8", ["string", "int64"], select_cols=[1, 3]),
    "csv, numbers that do not fit": csv(b"99999999999999999999,1\n1.0,1\n1,1\n1,3000000000", ["int64", "int32"]),
    "csv, floats": csv(b"1e3,-2.5\n.5,5.\n1_0,2\n1,x", ["float", "double"]),
    "csv, an empty line": csv(b"\n", [["int32", 3]]),
    "csv, another delimiter": csv(b'1;"2"\n3;4', ["int64", "int64"], field_delim=";"),
    "csv of an empty file": csv(b"", ["int64"]),
})
