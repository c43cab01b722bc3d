"""What TensorFlow's optimizers make of four parameters: the rows of brigade/optim/rms_prop_test.cpp and lars_test.cpp.

    .deps/bench-venv/bin/python tools/tf_data/update_rules.py
"""

import numpy as np
import tensorflow as tf

ROWS = 4
STEPS = (1, 2, 6)
INITIAL = np.array([-0.5, 0.25, 0.75, 2.0])


def gradient(step):
    """Exact in binary, positive, negative and zero."""
    return np.array([(7 * i + 3 * step) % 11 - 5 for i in range(ROWS)]) / 4


def parameters_of(make_optimizer, dtype, gradient_of=gradient):
    """The parameters after each of STEPS."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("v", initializer=tf.constant(INITIAL, dtype), use_resource=True)
        optimizer = make_optimizer()
        updates = [optimizer.apply_gradients([(gradient_of(step), variable)]) for step in range(1, STEPS[-1] + 1)]
        session.run(tf.compat.v1.global_variables_initializer())
        rows = []
        for step, update in enumerate(updates, 1):
            session.run(update)
            if step in STEPS:
                rows.append(session.run(variable))
        return rows


def dense(dtype):
    return lambda step: tf.constant(gradient(step), dtype)


def of_rows(dtype):
    """The gradients of two rows, which change from step to step."""
    def slices(step):
        indices = sorted({step % ROWS, (step * step) % ROWS, 3})
        return tf.IndexedSlices(tf.constant(gradient(step)[indices], dtype), tf.constant(indices), tf.constant([ROWS]))
    return slices


def keras_parameters(optimizer, dtype):
    variable = tf.Variable(INITIAL, dtype=dtype)
    optimizer.build([variable])
    rows = []
    for step in range(1, STEPS[-1] + 1):
        optimizer.apply_gradients([(tf.constant(gradient(step), dtype), variable)])
        if step in STEPS:
            rows.append(variable.numpy())
    return rows


def lars_parameters(learning_rate, momentum, weight_decay, trust_coefficient, epsilon, adapted=True):
    """tf.contrib.opt.LARSOptimizer is gone with TensorFlow 1; this is its update, in TensorFlow's operations."""
    variable, velocity = tf.Variable(INITIAL), tf.Variable(tf.zeros_like(INITIAL))
    rows = []
    for step in range(1, STEPS[-1] + 1):
        of_loss = tf.constant(gradient(step))
        norm, gradient_norm = tf.norm(variable), tf.norm(of_loss)
        rate = learning_rate
        if adapted:
            rate *= trust_coefficient * norm / (gradient_norm + weight_decay * norm + epsilon)
        tf.raw_ops.ResourceApplyMomentum(var=variable.handle, accum=velocity.handle, lr=tf.constant(1.0, tf.float64),
                                         grad=rate * (of_loss + weight_decay * variable), momentum=tf.constant(momentum, tf.float64))
        if step in STEPS:
            rows.append(variable.numpy())
    return rows


def show(name, rows):
    print(f"// {name}")
    for row in rows:
        print("{" + ", ".join(repr(float(value)) for value in row) + "},")


if __name__ == "__main__":
    import keras

    rms_prop = tf.compat.v1.train.RMSPropOptimizer
    for options in [
        {"learning_rate": 0.1},
        {"learning_rate": 0.1, "decay": 0.9, "momentum": 0.9, "epsilon": 1.0},
        {"learning_rate": 0.1, "decay": 0.8, "momentum": 0.5, "epsilon": 0.01, "centered": True},
        {"learning_rate": 0.1, "decay": 0.7, "epsilon": 0.1, "centered": True},
    ]:
        show(f"RMSPropOptimizer {options}", parameters_of(lambda: rms_prop(**options), tf.float64, dense(tf.float64)))
    options = {"learning_rate": 0.1, "momentum": 0.9, "epsilon": 1.0}
    show(f"RMSPropOptimizer {options}, float32", parameters_of(lambda: rms_prop(**options), tf.float32, dense(tf.float32)))
    show(f"RMSPropOptimizer {options}, rows", parameters_of(lambda: rms_prop(**options), tf.float64, of_rows(tf.float64)))
    for options in [{"learning_rate": 0.1}, {"learning_rate": 0.1, "rho": 0.8, "momentum": 0.5, "centered": True, "epsilon": 0.01}]:
        # Keras keeps its slots in the variable's dtype only under this setting.
        keras.config.set_floatx("float64")
        show(f"Keras RMSprop {options}", keras_parameters(keras.optimizers.RMSprop(**options), tf.float64))
    for options in [{"learning_rate": 30.0, "momentum": 0.9, "weight_decay": 1e-4, "trust_coefficient": 1e-3, "epsilon": 0.0},
                    {"learning_rate": 2.0, "momentum": 0.5, "weight_decay": 0.1, "trust_coefficient": 0.02, "epsilon": 0.3},
                    {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.1, "trust_coefficient": 0.02, "epsilon": 0.0, "adapted": False}]:
        show(f"LARS {options}", lars_parameters(**options))
