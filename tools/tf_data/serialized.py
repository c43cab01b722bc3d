"""tf.train.Examples from plain values, for the tables of what TensorFlow's parsers make of them."""

import tensorflow as tf

BYTES, FLOAT, INT64 = tf.string, tf.float32, tf.int64
KINDS = {"bytes": BYTES, "float": FLOAT, "int64": INT64}


def feature(values):
    if values is None:
        return tf.train.Feature()
    if isinstance(values, tf.train.Feature):
        return values
    if all(isinstance(value, bytes) for value in values) and values:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if all(isinstance(value, int) for value in values) and values:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def serialized(features):
    example = tf.train.Example(features=tf.train.Features(feature={name: feature(values) for name, values in features.items()}))
    return example.SerializeToString(deterministic=True)
