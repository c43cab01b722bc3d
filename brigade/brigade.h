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
#include "brigade/device/device_functions.h"
#include "brigade/device/device_scope.h"
#include "brigade/device/placement.h"
#include "brigade/distribute/average_gradients.h"
#include "brigade/distribute/central_storage_strategy.h"
#include "brigade/distribute/mirrored_strategy.h"
#include "brigade/distribute/one_device_strategy.h"
#include "brigade/distribute/parallel_optimization.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/mnist.h"
#include "brigade/input/one_hot.h"
#include "brigade/input/synthetic.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/layers/losses.h"
#include "brigade/layers/v1/batch_normalization.h"
#include "brigade/layers/v1/convolution.h"
#include "brigade/layers/v1/core.h"
#include "brigade/layers/v1/loss_collection.h"
#include "brigade/layers/v1/losses.h"
#include "brigade/layers/v1/pooling.h"
#include "brigade/models/mlp.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/models/mnist_cnn_function.h"
#include "brigade/models/slim_net.h"
#include "brigade/models/zoo.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/clipping.h"
#include "brigade/optim/cosine_decay.h"
#include "brigade/optim/decay.h"
#include "brigade/optim/moving_average.h"
#include "brigade/optim/sgd.h"
#include "brigade/optim/warm_up.h"
#include "brigade/slim/layers.h"
#include "brigade/slim/learning.h"
#include "brigade/slim/model_deploy.h"
#include "brigade/slim/train_op.h"
#include "brigade/train/accuracy.h"
#include "brigade/train/auc.h"
#include "brigade/train/do_training.h"
#include "brigade/train/evaluate.h"
#include "brigade/train/make_metric.h"
#include "brigade/train/mean.h"
#include "brigade/train/metric.h"
#include "brigade/train/parallel_training.h"
#include "brigade/train/precision_recall.h"
#include "brigade/train/regression.h"
#include "brigade/variables/colocation.h"
#include "brigade/variables/get_variable.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/variable_scope.h"

namespace brigade {

namespace losses = layers::losses;
namespace metrics = train;

using comm::ReduceOp;
using device::assign_to_device;
using device::replica_device_setter;
using device::with_device;
using distribute::average_gradients;
using distribute::BatchSource;
using distribute::CentralStorageOptions;
using distribute::CentralStorageStrategy;
using distribute::create;
using distribute::create_parallel_optimization;
using distribute::current_strategy;
using distribute::DistributedDataset;
using distribute::Gradients;
using distribute::InputContext;
using distribute::InputFunction;
using distribute::LossScale;
using distribute::minimizer;
using distribute::Minimizer;
using distribute::MinimizerOptions;
using distribute::MirroredOptions;
using distribute::MirroredStrategy;
using distribute::ModelFunction;
using distribute::OneDeviceOptions;
using distribute::OneDeviceStrategy;
using distribute::ParallelOptimization;
using distribute::PerReplica;
using distribute::ReplicaContext;
using distribute::Replicated;
using distribute::Strategy;
using distribute::TowerInput;
using distribute::TowerOptions;
using train::do_training;
using train::parallel_training;
using variables::Aggregation;
using variables::colocate_with;
using variables::get_or_create_global_step;
using variables::get_variable;
using variables::get_variable_scope;
using variables::global_variables;
using variables::Graph;
using variables::make_variable;
using variables::Mode;
using variables::name_scope;
using variables::Reuse;
using variables::Synchronization;
using variables::Trainable;
using variables::trainable_variables;
using variables::Variable;
using variables::variable_scope;

}  // namespace brigade
