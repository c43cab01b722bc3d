"""rejection_resample: how likely elements are kept, and the elements where chance has no say."""

import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops

from table import case, write

numbers = tf.data.Dataset.range


def acceptance(initial, target):
    of_class, of_any = dataset_ops._calculate_acceptance_probs_with_mixing(
        tf.constant(initial, tf.float32), tf.constant(target, tf.float32))
    return {"initial": initial, "target": target, "of_class": of_class.numpy().tolist(), "of_any": float(of_any)}


def estimated(classes, target):
    """The shares after 32 elements, which TensorFlow looks at before it decides about the first."""
    first = next(iter(dataset_ops._estimate_initial_dist_ds(
        tf.constant(target, tf.float32), tf.data.Dataset.from_tensor_slices(classes))))
    return {"classes": classes, "shares": first.numpy().tolist()}


def resampled(count, classes, target, initial=None):
    class_of = lambda x: tf.cast(x % classes, tf.int32)
    return case(numbers(count).rejection_resample(class_of, target, initial_dist=initial))


write("resample", {
    "acceptance": [
        acceptance([0.6, 0.4], [0.5, 0.5]), acceptance([0.9, 0.1], [0.5, 0.5]), acceptance([0.5, 0.5], [0.0, 1.0]),
        acceptance([0.2, 0.3, 0.5], [0.5, 0.25, 0.25]), acceptance([0.25, 0.25, 0.5], [0.3, 0.3, 0.4])],
    "estimated": estimated([x % 4 // 3 for x in range(32)], [0.5, 0.5]),
    "range(8), as it is": resampled(8, 2, [0.5, 0.5], [0.5, 0.5]),
    "range(9), the second of three": resampled(9, 3, [0.0, 1.0, 0.0], [0.4, 0.3, 0.3]),
    "range(9), the last two of three": resampled(9, 3, [0.0, 0.5, 0.5], [0.5, 0.25, 0.25]),
    "range(8), the second of two, estimated": resampled(8, 2, [0.0, 1.0]),
})
