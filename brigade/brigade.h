#pragma once

/// Everything a program that trains needs, under short names:
///
///   #include <brigade/brigade.h>
///   namespace bg = brigade;
///
/// For users. Brigade's own code includes the headers it needs.

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/checkpoint/safetensors.h"
#include "brigade/data/dataset.h"
#include "brigade/device/device.h"
#include "brigade/distribute/mirrored_strategy.h"
#include "brigade/distribute/one_device_strategy.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/mnist.h"
#include "brigade/input/one_hot.h"
#include "brigade/input/synthetic.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/layers/losses.h"
#include "brigade/models/mlp.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/models/zoo.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"
#include "brigade/train/evaluate.h"
#include "brigade/train/metric.h"

namespace brigade {

namespace losses = layers::losses;
namespace metrics = train;

using comm::ReduceOp;
using distribute::create;
using distribute::current_strategy;
using distribute::DistributedDataset;
using distribute::InputContext;
using distribute::LossScale;
using distribute::minimizer;
using distribute::Minimizer;
using distribute::MirroredOptions;
using distribute::MirroredStrategy;
using distribute::OneDeviceOptions;
using distribute::OneDeviceStrategy;
using distribute::PerReplica;
using distribute::ReplicaContext;
using distribute::Replicated;
using distribute::Strategy;
using variables::Aggregation;
using variables::make_variable;
using variables::Synchronization;
using variables::Trainable;
using variables::Variable;

}  // namespace brigade
