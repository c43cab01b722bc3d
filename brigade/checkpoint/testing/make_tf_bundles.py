"""Writes the TensorFlow checkpoints that tf_bundle_test and tf_layout_test read: python make_tf_bundles.py DIRECTORY

(tensorflow 2.21, tf_slim 1.1, tf_keras 2.21). The elements of a variable are ((5 i + salt) mod 17 - 8) / 4 for i = 0, 1, ...:
exact in every floating type; whole numbers in integral types.
"""
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import numpy as np
import tensorflow as tf
import tf_slim as slim

tf1 = tf.compat.v1


def values(shape, dtype=tf.float32, salt=0):
    count = int(np.prod(shape))
    numbers = (np.arange(count) * 5 + salt) % 17 - 8
    if dtype == tf.bool:
        numbers = numbers > 0
    elif dtype.is_floating:
        numbers = numbers / 4
    elif dtype.is_unsigned:
        numbers = numbers + 8
    return numbers.reshape(shape).astype(dtype.as_numpy_dtype)


def variable(name, shape, dtype=tf.float32, salt=0):
    return tf1.get_variable(name, initializer=tf.constant(values(shape, dtype, salt)), use_resource=False)


def saver(folder):
    """A V2 saver of a graph: every dtype, and a variable in two parts."""
    with tf.Graph().as_default(), tf1.Session() as session:
        for dtype in (tf.float64, tf.float32, tf.float16, tf.bfloat16, tf.int64, tf.int32, tf.int16, tf.int8, tf.uint8, tf.bool):
            variable("dtypes/" + dtype.name, [2, 3], dtype)
        variable("scalar", [], tf.int64, salt=3)
        variable("empty", [0, 4])
        tf1.get_variable("embedding/weights", shape=[130, 3], partitioner=tf1.fixed_size_partitioner(2), use_resource=False,
                         initializer=lambda shape, dtype, partition_info:
                         tf.constant(values([130, 3])[partition_info.var_offset[0]:partition_info.var_offset[0] + shape[0]]))
        tf1.get_variable("columns/weights", shape=[2, 7], partitioner=tf1.fixed_size_partitioner(3, axis=1), use_resource=False,
                         initializer=lambda shape, dtype, partition_info:
                         tf.constant(values([2, 7])[:, partition_info.var_offset[1]:partition_info.var_offset[1] + shape[1]]))
        session.run(tf1.global_variables_initializer())
        tf1.train.Saver(write_version=tf1.train.SaverDef.V2).save(session, str(folder / "saver"), write_meta_graph=False,
                                                                   write_state=False)


def sharded(folder):
    """Two devices, so two data files."""
    with tf.Graph().as_default(), tf1.Session(config=tf1.ConfigProto(device_count={"CPU": 2})) as session:
        for device in range(2):
            with tf1.device(f"/cpu:{device}"):
                variable(f"on_{device}/a", [2, 2], salt=device)
                variable(f"on_{device}/b", [3], tf.int32, salt=device)
        session.run(tf1.global_variables_initializer())
        tf1.train.Saver(sharded=True).save(session, str(folder / "sharded"), write_meta_graph=False, write_state=False)


def objects(folder):
    """An object-based checkpoint of a Keras model and its optimizer's step."""
    model = tf.keras.Sequential([tf.keras.layers.Conv2D(2, 3, input_shape=(5, 5, 3)), tf.keras.layers.BatchNormalization(),
                                 tf.keras.layers.Flatten(), tf.keras.layers.Dense(4)])
    for salt, weight in enumerate(model.weights):
        weight.assign(values(weight.shape, salt=salt))
    tf.train.Checkpoint(model=model, step=tf.Variable(7, dtype=tf.int64)).write(str(folder / "objects"))


def raw(name, folder, tensors, slices=None):
    """SaveV2 itself: dtypes and slices that a graph's variables cannot have."""
    names = list(tensors) if isinstance(tensors, dict) else [each for each, _ in tensors]
    contents = list(tensors.values()) if isinstance(tensors, dict) else [each for _, each in tensors]
    tf.raw_ops.SaveV2(prefix=str(folder / name), tensor_names=names, shape_and_slices=slices or [""] * len(names), tensors=contents)


def layouts(folder):
    """A Slim model of every kind of layer whose weights are laid out differently, an input (as NCHW), and its output."""
    with tf.Graph().as_default(), tf1.Session() as session:
        image = tf.constant(values([2, 6, 5, 3], salt=2))
        with slim.arg_scope([slim.conv2d, slim.separable_conv2d, slim.fully_connected], activation_fn=None):
            net = slim.conv2d(image, 4, [3, 2], scope="conv")
            net = slim.separable_conv2d(net, None, [2, 3], depth_multiplier=2, scope="depthwise")
            net = slim.separable_conv2d(net, 4, [3, 3], depth_multiplier=1, scope="separable")
            net = slim.max_pool2d(net, [2, 2], scope="pool")
            net = slim.flatten(net, scope="flatten")
            net = slim.fully_connected(net, 5, scope="first")
            net = slim.fully_connected(net, 5, scope="square")
        for salt, each in enumerate(tf1.global_variables()):
            session.run(each.assign(values(each.shape.as_list(), salt=salt)))
        output = tf1.Variable(session.run(net), name="output", use_resource=False)
        given = tf1.Variable(values([2, 6, 5, 3], salt=2).transpose(0, 3, 1, 2), name="input", use_resource=False)
        session.run([output.initializer, given.initializer])
        tf1.train.Saver().save(session, str(folder / "layouts"), write_meta_graph=False, write_state=False)


def main():
    folder = pathlib.Path(sys.argv[1])
    saver(folder)
    sharded(folder)
    objects(folder)
    layouts(folder)
    raw("others", folder, {"strings": tf.constant([b"a", b"", b"long" * 50]), "complex": tf.constant([1 + 2j], tf.complex64),
                           "uint32": tf.constant([1, 2], tf.uint32), "plain": tf.constant(values([2]))})
    # The keys of slices with numbers of every length.
    lengths = [1, 63, 64, 8191, 8192, 2**20 - 1, 2**20, 2**27 - 1, 2**27, 2**34, 2**41, 2**48, 2**55, 2**62 - 2]
    raw("slices", folder, [("v", tf.constant([[1.0]])) for _ in lengths],
        [f"{2**62} 1 {start},1:0,1" for start in lengths])
    raw("whole_axis", folder, [("a\0b", tf.constant(values([2, 3]))), ("a\0b", tf.constant(values([1, 3])))], ["3 3 0,2:-", "3 3 2,1:-"])
    raw("no_text", folder, {b"a\xff": tf.constant(values([2]))})


if __name__ == "__main__":
    main()
