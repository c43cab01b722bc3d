"""Writes inception_v3_values.json: what torchvision's and TF-Slim's Inception v3 compute, for inception_v3_test.cpp.

    python make_inception_v3_values.py [OUTPUT]

Needs torch, torchvision, tensorflow, tf_slim and tf_keras. Weights and images are those of pattern_weights.py, so the file has results
only: for each case the logits, the auxiliary logits, the loss (cross entropy, plus 0.4 times that of the auxiliary logits), and a
summary of each parameter's gradient. All is computed in float64.
"""
import json
import os
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from pattern_weights import pattern_values, pattern_weights, summary_of  # noqa: E402

CLASSES = 10
LABELS = [3, 8]
AUXILIARY_WEIGHT = 0.4


def images(side):
    return pattern_values("images", (len(LABELS), 3, side, side)).astype(np.float64)


def rounded(value):
    """Ten digits, which is more than float32 has."""
    return [rounded(each) for each in value] if isinstance(value, list) else float(f"{value:.9e}")


def case(original, side, training, logits, auxiliary, loss, gradients):
    names = sorted(gradients)
    return {"original": original, "side": side, "training": training, "logits": rounded(logits.tolist()),
            "auxiliary": None if auxiliary is None else rounded(auxiliary.tolist()), "loss": rounded(float(loss)), "names": names,
            "gradients": [rounded(summary_of(name, gradients[name])) for name in names]}


def of_torchvision(side, training, with_head):
    import torch
    import torchvision

    model = torchvision.models.inception_v3(num_classes=CLASSES, aux_logits=with_head, init_weights=False, dropout=0.0).double()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                tensor.copy_(torch.from_numpy(pattern_weights(name, tuple(tensor.shape))))
    model.train(training)
    result = model(torch.from_numpy(images(side)))
    logits, auxiliary = result if training and with_head else (result, None)
    labels = torch.tensor(LABELS)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    if auxiliary is not None:
        loss = loss + AUXILIARY_WEIGHT * torch.nn.functional.cross_entropy(auxiliary, labels)
    loss.backward()
    gradients = {name: parameter.grad.numpy() for name, parameter in model.named_parameters() if parameter.grad is not None}
    return case("torchvision", side, training, logits.detach().numpy(),
                None if auxiliary is None else auxiliary.detach().numpy(), loss.item(), gradients)


def to_libtorch(array):
    """A kernel [height, width, in, out] as [out, in, height, width]."""
    return np.transpose(array, (3, 2, 0, 1)) if array.ndim == 4 else array


def import_tf_slim():
    """TensorFlow looks for the layers that tf_slim uses where older versions of tf_keras have them."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tf_keras.src.legacy_tf_layers as layers
    from tf_keras.src.legacy_tf_layers import base, convolutional, core, normalization, pooling

    sys.modules["tf_keras.legacy_tf_layers"] = layers
    for module in (base, convolutional, core, normalization, pooling):
        sys.modules[module.__name__.replace(".src.", ".")] = module


def of_tf_slim(side, training, with_head):
    import_tf_slim()
    import tensorflow.compat.v1 as tf
    import tf_slim
    from tf_slim.nets import inception_v3

    with tf.Graph().as_default(), tf.Session() as session:
        inputs = tf.constant(np.transpose(images(side), (0, 2, 3, 1)))
        # The fused batch norm computes in float32 only.
        with tf_slim.arg_scope(inception_v3.inception_v3_arg_scope(use_fused_batchnorm=False)):
            logits, end_points = inception_v3.inception_v3(inputs, CLASSES, is_training=training, dropout_keep_prob=1.0,
                                                           create_aux_logits=with_head)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=LABELS, logits=logits))
        auxiliary = end_points.get("AuxLogits")
        if auxiliary is not None:
            loss += AUXILIARY_WEIGHT * tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=LABELS, logits=auxiliary))
        variables = tf.trainable_variables()
        gradients = tf.gradients(loss, variables)
        for variable in tf.global_variables():
            shape = tuple(variable.shape.as_list())
            name = variable.op.name
            like = pattern_weights(name, (shape[3], shape[2], shape[0], shape[1]) if len(shape) == 4 else shape)
            variable.load(np.transpose(like, (2, 3, 1, 0)) if like.ndim == 4 else like, session)
        fetched = session.run({"logits": logits, "loss": loss, "gradients": gradients,
                               **({} if auxiliary is None else {"auxiliary": auxiliary})})
        summary = {variable.op.name: to_libtorch(gradient) for variable, gradient in zip(variables, fetched["gradients"])}
        return case("tf_slim", side, training, fetched["logits"], fetched.get("auxiliary"), fetched["loss"], summary)


def main():
    default = pathlib.Path(__file__).parent / "inception_v3_values.json"
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    cases = [of_torchvision(299, True, True), of_torchvision(299, False, True), of_torchvision(151, True, False),
             of_torchvision(151, False, False), of_tf_slim(299, True, True), of_tf_slim(299, False, True),
             of_tf_slim(151, True, True), of_tf_slim(151, False, True)]
    lines = ",\n".join(json.dumps(each) for each in cases)
    output.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
