#pragma once

#include <optional>

#include "brigade/cluster/cluster_spec.h"
#include "brigade/distribute/strategy.h"
#include "brigade/optim/update_rule.h"
#include "brigade/ps/parameter_server_strategy.h"

namespace brigade::ps {

/// Options of SyncReplicasOptimizer, with TensorFlow's names.
struct SyncReplicasOptions {
  /// The gradients that are averaged to one update.
  int replicas_to_aggregate = 1;
  /// The workers that compute gradients; the gradients that arrive last in a step are dropped, as
  /// many as there are more workers than `replicas_to_aggregate`. Unset: `replicas_to_aggregate`.
  std::optional<int> total_num_replicas = std::nullopt;
};

/// TensorFlow's way of saying that workers train synchronously: a wrapper of the update rule. Here
/// the strategy decides about the mode, so this gives the strategy's options, and checks them where
/// an optimizer is made of it:
///
///   const bg::SyncReplicasOptimizer optimizer(bg::Sgd{.learning_rate = 0.1},
///                                             {.replicas_to_aggregate = 4,
///                                              .total_num_replicas = 5});
///   bg::ParameterServerStrategy strategy(cluster, "worker", task,
///                                        optimizer.strategy_options(cluster));
///   auto updates = strategy.optimizer(model, optimizer);  // or create_train_op(..., optimizer)
///
/// New programs give `ParameterServerOptions` the mode and `backup_workers`.
/// `make_session_run_hook` has no counterpart: workers wait for each other without a hook, and the
/// chief without a token queue. TensorFlow: tf.train.SyncReplicasOptimizer.
///
/// Thread-safety: a value.
class SyncReplicasOptimizer {
 public:
  /// `opt` is the options of an update rule. Throws kInvalidArgument for numbers below 1, and for
  /// more gradients than workers: TensorFlow's workers then compute several batches for a step, for
  /// which this library has `OptimizerOptions::accumulate`.
  template <class Rule>
  SyncReplicasOptimizer(const Rule& opt, SyncReplicasOptions options)
      : SyncReplicasOptimizer(opt.rule(), options) {}
  SyncReplicasOptimizer(optim::UpdateRulePtr rule, SyncReplicasOptions options);

  int replicas_to_aggregate() const { return options_.replicas_to_aggregate; }
  int total_num_replicas() const;

  /// `options` for a strategy in the mode kSync, with as many backup workers. Throws
  /// kInvalidArgument unless the cluster has `total_num_replicas` tasks that train.
  ParameterServerOptions strategy_options(const cluster::ClusterSpec& cluster,
                                          ParameterServerOptions options = {}) const;
  /// Throws kInvalidArgument, naming what to do, unless `strategy` adds so many gradients of so
  /// many workers. Called where an optimizer is made.
  void check(const distribute::Strategy& strategy) const;

  /// The update rule that is wrapped.
  optim::UpdateRulePtr rule() const { return rule_; }

 private:
  optim::UpdateRulePtr rule_;
  SyncReplicasOptions options_;
};

}  // namespace brigade::ps
