#include "brigade/distribute/optimizer/optimizer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <atomic>

#include "brigade/distribute/replica_context.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/graph.h"

namespace brigade::distribute {
namespace {

/// A batch of `sizes` rows of three numbers; the rows of all replicas together are always the same.
PerReplica<at::Tensor> rows_split(const std::vector<std::int64_t>& sizes) {
  const ExampleCounts counts = ExampleCounts::of(sizes);
  const at::Tensor all = at::arange(counts.global * 3, at::kDouble).view({counts.global, 3}).sin();
  std::vector<at::Tensor> local_batches;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    local_batches.push_back(all.narrow(0, begin, size));
    begin += size;
  }
  return PerReplica<at::Tensor>(std::move(local_batches), counts);
}

at::Tensor losses_of(const at::Tensor& outputs) {
  return (outputs - 1).square().sum(1);  // one per example
}

struct Job {
  explicit Job(int replicas, const OptimizerOptions& options = {},
               const optim::Sgd& rule = {.learning_rate = 0.1})
      : strategy(cpus(replicas)),
        model(strategy.create<AffineModule>()),
        optimizer(strategy.optimizer(model, rule, options)) {}

  template <class Step>
  void run(const PerReplica<at::Tensor>& batch, const Step& step) {
    strategy.run([&](ReplicaContext& context, const at::Tensor& x) { step(context, x); }, batch);
  }
  at::Tensor value(std::size_t i) const { return model.variables()[i].read(); }

  MirroredStrategy strategy;
  Replicated<AffineModule> model;
  Optimizer optimizer;
};

/// Trains one replica on the global batch and `sizes.size()` replicas on their per-replica batches,
/// with `step(job, x)`, and expects the same weights.
template <class Step>
void expect_as_one_replica(const std::vector<std::int64_t>& sizes, const Step& step) {
  Job one(1);
  Job many(static_cast<int>(sizes.size()));
  for (int i = 0; i < 3; ++i) {
    one.run(rows_split({ExampleCounts::of(sizes).global}),
            [&](ReplicaContext&, const at::Tensor& x) { step(one, x); });
    many.run(rows_split(sizes), [&](ReplicaContext&, const at::Tensor& x) { step(many, x); });
  }
  for (std::size_t i = 0; i < one.model.variables().size(); ++i)
    EXPECT_TRUE(many.value(i).allclose(one.value(i), 1e-12, 1e-14)) << i;
  EXPECT_FALSE(one.value(0).allclose(at::full({3}, 2.0, at::kDouble))) << "nothing was learned";
}

const std::vector<std::vector<std::int64_t>> kSplits = {
    {2, 2}, {3, 2}, {3, 0}, {1, 1, 0}, {4, 3, 3}};

TEST(Optimizer, AMeanOverOwnExamplesBecomesTheMeanOverTheGlobalBatch) {
  for (const auto& sizes : kSplits) {
    expect_as_one_replica(sizes, [](Job& job, const at::Tensor& x) {
      job.optimizer.minimize(losses_of(job.model(x)).mean());
    });
  }
}

TEST(Optimizer, OneLossPerExampleNeedsNoMean) {
  for (const auto& sizes : kSplits) {
    expect_as_one_replica(sizes, [](Job& job, const at::Tensor& x) {
      job.optimizer.minimize(losses_of(job.model(x)));
    });
    // Also values beyond the first dimension: averaged within their example.
    expect_as_one_replica(sizes, [](Job& job, const at::Tensor& x) {
      job.optimizer.minimize((job.model(x) - 1).square());
    });
  }
}

TEST(Optimizer, ScalarMeansAndLossesPerExampleGiveTheSameGradient) {
  Job means(2);
  Job each(2);
  means.run(rows_split({3, 1}), [&](ReplicaContext&, const at::Tensor& x) {
    means.optimizer.minimize(losses_of(means.model(x)).mean());
  });
  each.run(rows_split({3, 1}), [&](ReplicaContext&, const at::Tensor& x) {
    each.optimizer.minimize(losses_of(each.model(x)));
  });
  EXPECT_TRUE(means.value(0).allclose(each.value(0), 1e-12));
}

TEST(Optimizer, SumsAndScaledLossesAreAdded) {
  for (const auto& sizes : kSplits) {
    const auto global = static_cast<double>(ExampleCounts::of(sizes).global);
    expect_as_one_replica(sizes, [](Job& job, const at::Tensor& x) {
      job.optimizer.minimize(0.1 * losses_of(job.model(x)).sum(), LossScale::kSum);
    });
    expect_as_one_replica(sizes, [](Job& job, const at::Tensor& x) {
      job.optimizer.minimize(0.1 * losses_of(job.model(x)), LossScale::kSum);
    });
    expect_as_one_replica(sizes, [&](Job& job, const at::Tensor& x) {
      job.optimizer.minimize(losses_of(job.model(x)).sum() / global, LossScale::kAlreadyScaled);
    });
  }
}

TEST(Optimizer, WithoutADistributedBatchLossesPerExampleAreCounted) {
  Job one(1);
  Job two(2);
  one.strategy.run(
      [&](ReplicaContext&) { one.optimizer.minimize(losses_of(one.model(rows_split({5})[0]))); });
  const auto local_batches = rows_split({3, 2});
  two.strategy.run([&](ReplicaContext& context) {
    two.optimizer.minimize(losses_of(two.model(local_batches[context.replica_id()])));
  });
  EXPECT_TRUE(two.value(0).allclose(one.value(0), 1e-12));
}

TEST(Optimizer, WithoutADistributedBatchAScalarMeanIsRefused) {
  Job job(2);
  const Error error = error_from([&] {
    job.strategy.run([&](ReplicaContext&) {
      job.optimizer.minimize(losses_of(job.model(at::zeros({2, 3}, at::kDouble))).mean());
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "kAlreadyScaled")) << error.what();
}

TEST(Optimizer, AnEmptyReplicaContributesExactlyZeroWhateverItsLossIs) {
  Job job(2);
  job.run(rows_split({3, 0}), [&](ReplicaContext& context, const at::Tensor& x) {
    const at::Tensor loss = losses_of(job.model(x)).mean();
    EXPECT_EQ(loss.isnan().item<bool>(), context.replica_id() == 1);
    job.optimizer.minimize(loss);
  });
  EXPECT_FALSE(job.value(0).isnan().any().item<bool>());
}

TEST(Optimizer, AVariableThatTheLossDoesNotUseKeepsItsValueSlotsAndStep) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<AffineModule>();
  const auto adam = strategy.optimizer(model, optim::AdamW{.weight_decay = 0.5});
  const auto batch = rows_split({2, 2});
  for (int i = 0; i < 2; ++i) {
    strategy.run([&](ReplicaContext&, const at::Tensor& x) { adam.minimize(losses_of(model(x))); },
                 batch);
  }
  const auto& state = adam.state();
  ASSERT_EQ(state.variables()[2].name(), "unused");
  EXPECT_TRUE(at::equal(state.variables()[2].read(), at::full({2}, 5.0, at::kDouble)));
  EXPECT_EQ(state.step(2), 0);
  EXPECT_EQ(state.step(0), 2);
  EXPECT_EQ(state.slot(2, 0, 0).count_nonzero().item<std::int64_t>(), 0);
}

TEST(Optimizer, AVariableThatOneReplicaDoesNotUseHasAZeroGradientThere) {
  Job two(2);
  two.strategy.run([&](ReplicaContext& context) {
    const at::Tensor x = at::full({1, 3}, 1.0, at::kDouble);
    // Only replica 1 sees the bias.
    const at::Tensor y = context.replica_id() == 0 ? x * two.model->weight : two.model(x);
    two.optimizer.minimize(y.sum(), LossScale::kSum);
  });
  EXPECT_TRUE(at::equal(two.value(1), at::full({3}, -0.1, at::kDouble)));
  EXPECT_TRUE(two.value(0).allclose(at::full({3}, 2.0 - 0.2, at::kDouble), 1e-15));
}

TEST(Optimizer, ClippingAggregatedGradientsGivesTheResultOfOneReplica) {
  expect_as_one_replica({3, 2}, [](Job& job, const at::Tensor& x) {
    const Gradients local = job.optimizer.compute_gradients(losses_of(job.model(x)));
    Gradients whole = job.optimizer.aggregate(local);
    at::Tensor squares = at::zeros({}, at::kDouble);
    for (const at::Tensor& gradient : whole.values())
      if (gradient.defined()) squares = squares + gradient.square().sum();
    const double norm = squares.sqrt().item<double>();
    EXPECT_GT(norm, 0.5) << "nothing would be clipped";
    for (std::size_t i = 0; i < whole.size(); ++i)
      if (whole[i].defined()) whole[i] = whole[i] * (0.5 / norm);
    job.optimizer.apply_gradients(whole);
  });
}

TEST(Optimizer, LocalGradientsMayBeChangedToo) {
  expect_as_one_replica({3, 2}, [](Job& job, const at::Tensor& x) {
    Gradients gradients = job.optimizer.compute_gradients(losses_of(job.model(x)));
    if (gradients["bias"].defined()) gradients["bias"] = 3 * gradients["bias"];
    gradients["unused"] = at::Tensor();
    job.optimizer.apply_gradients(gradients);
  });
}

TEST(Optimizer, GradientsMayHaveAnyLayout) {
  Job job(2);
  job.run(rows_split({1, 1}), [&](ReplicaContext&, const at::Tensor& x) {
    Gradients gradients = job.optimizer.compute_gradients(losses_of(job.model(x)));
    gradients["weight"] = at::full({3, 2}, 1.0, at::kDouble).t()[0].clone();
    gradients["bias"] = at::full({3, 2}, 1.0, at::kDouble).t()[0];  // strided
    job.optimizer.apply_gradients(gradients);
  });
  EXPECT_TRUE(job.value(1).allclose(at::full({3}, -0.2, at::kDouble)));
}

struct Table : torch::nn::Module {
  Table() : rows(register_parameter("rows", at::ones({5, 2}, at::kDouble))) {}
  at::Tensor rows;
};

at::Tensor table_after_a_step(int replicas, bool sparse) {
  MirroredStrategy strategy(cpus(replicas));
  const auto model = strategy.create<Table>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.5});
  strategy.run([&](ReplicaContext& context) {
    // One replica looks up rows 1, 3 and 3; two replicas divide them, and both look up row 3.
    const at::Tensor all = at::arange(1, 4, at::kLong).clamp_min(1).mul(2).sub(1).clamp_max(3);
    const at::Tensor mine = replicas == 1               ? all
                            : context.replica_id() == 0 ? all.narrow(0, 0, 2)
                                                        : all.narrow(0, 2, 1);
    sgd.minimize(at::embedding(model->rows, mine, -1, false, sparse).sum(), LossScale::kSum);
  });
  return model.variables()[0].read();
}

TEST(Optimizer, SparseGradientsAreMadeDense) {
  const at::Tensor expected = table_after_a_step(1, false);
  EXPECT_EQ(expected[0][0].item<double>(), 1);
  EXPECT_EQ(expected[1][0].item<double>(), 0.5);
  EXPECT_EQ(expected[3][0].item<double>(), 0);
  EXPECT_TRUE(at::equal(table_after_a_step(1, true), expected));
  EXPECT_TRUE(at::equal(table_after_a_step(2, true), expected));
}

TEST(Optimizer, GradientsAreAggregatedOnce) {
  Job job(2);
  const Error error = error_from([&] {
    job.run(rows_split({1, 1}), [&](ReplicaContext&, const at::Tensor& x) {
      const auto local = job.optimizer.compute_gradients(losses_of(job.model(x)));
      const auto whole = job.optimizer.aggregate(local);
      EXPECT_EQ(whole.state(), GradientState::kAggregated);
      job.optimizer.aggregate(whole);
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "aggregate them once")) << error.what();
}

TEST(Optimizer, GradientsOfAnotherStepAreRefused) {
  Job job(1);
  std::optional<Gradients> kept;
  job.run(rows_split({1}), [&](ReplicaContext&, const at::Tensor& x) {
    kept = job.optimizer.compute_gradients(losses_of(job.model(x)));
  });
  const Error error = error_from([&] {
    job.run(rows_split({1}),
            [&](ReplicaContext&, const at::Tensor&) { job.optimizer.apply_gradients(*kept); });
  });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "step 0")) << error.what();
}

TEST(Optimizer, TheScaleIsDeclaredOnce) {
  Job job(2);
  const auto step = [&](LossScale scale) {
    job.run(rows_split({1, 1}), [&](ReplicaContext&, const at::Tensor& x) {
      job.optimizer.minimize(losses_of(job.model(x)), scale);
    });
  };
  step(LossScale::kSum);
  const Error error = error_from([&] { step(LossScale::kMeanOverExamples); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "sum") && mentions(error, "mean_over_examples")) << error.what();
  EXPECT_NO_THROW(step(LossScale::kSum));
}

TEST(Optimizer, ReplicasThatDeclareDifferentScalesAreRefused) {
  Job job(2);
  EXPECT_EQ(error_from([&] {
              job.run(rows_split({1, 1}), [&](ReplicaContext& context, const at::Tensor& x) {
                job.optimizer.minimize(losses_of(job.model(x)), context.replica_id() == 0
                                                                    ? LossScale::kSum
                                                                    : LossScale::kAlreadyScaled);
              });
            }).code(),
            ErrorCode::kFailedPrecondition);
}

TEST(Optimizer, AParameterThatOtherCodeChangedIsRefusedByName) {
  Job job(2);
  {
    const at::NoGradGuard no_grad;
    job.model.replica(1).weight.add_(1);
  }
  const auto step = [&] {
    job.run(rows_split({1, 1}), [&](ReplicaContext&, const at::Tensor& x) {
      job.optimizer.minimize(losses_of(job.model(x)));
    });
  };
  const Error error = error_from(step);
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "'weight'") && mentions(error, "Replica 1")) << error.what();
}

TEST(Optimizer, AModelConvertedAfterItsCreationIsRefused) {
  Job job(2);
  job.model.replica(0).to(at::kFloat);
  const Error error = error_from([&] {
    job.run(rows_split({1, 1}), [&](ReplicaContext&, const at::Tensor& x) {
      job.optimizer.minimize(losses_of(job.model(x)));
    });
  });
  EXPECT_TRUE(mentions(error, "moved to other memory")) << error.what();
}

TEST(Optimizer, RefusesLossesThatDoNotFit) {
  Job job(2);
  const auto code_for = [&](const auto& loss_of) {
    return error_from([&] {
             job.run(rows_split({2, 2}), [&](ReplicaContext&, const at::Tensor& x) {
               job.optimizer.minimize(loss_of(x));
             });
           })
        .code();
  };
  EXPECT_EQ(code_for([&](const at::Tensor& x) { return losses_of(job.model(x)).narrow(0, 0, 1); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_for([&](const at::Tensor& x) { return losses_of(x); }),
            ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code_for([&](const at::Tensor& x) {
              const at::NoGradGuard no_grad;
              return losses_of(job.model(x));
            }),
            ErrorCode::kFailedPrecondition);
}

TEST(Optimizer, WorksInReplicasOnly) {
  Job job(2);
  EXPECT_EQ(error_from([&] { job.optimizer.minimize(at::zeros({1})); }).code(),
            ErrorCode::kFailedPrecondition);
  EXPECT_EQ(error_from([&] {
              job.strategy.run([&](ReplicaContext&) { job.optimizer.set_learning_rate(1); });
            }).code(),
            ErrorCode::kFailedPrecondition);
}

TEST(Optimizer, GroupsHaveSeparateRatesAndFrozenVariablesDoNotChange) {
  Job job(2, {.groups = {{.names = {"bias"}, .frozen = true},
                         {.names = {"weight"}, .learning_rate = 0.0}}});
  const auto step = [&] {
    job.run(rows_split({2, 1}), [&](ReplicaContext&, const at::Tensor& x) {
      const Gradients gradients = job.optimizer.compute_gradients(losses_of(job.model(x)));
      EXPECT_FALSE(gradients[1].defined()) << "a frozen variable's gradient is not computed";
      EXPECT_TRUE(gradients[0].defined());
      job.optimizer.apply_gradients(gradients);
    });
  };
  step();
  EXPECT_TRUE(at::equal(job.value(0), at::full({3}, 2.0, at::kDouble)));
  EXPECT_TRUE(at::equal(job.value(1), at::zeros({3}, at::kDouble)));
  EXPECT_EQ(job.optimizer.state().step(0), 1);
  EXPECT_EQ(job.optimizer.state().step(1), 0);
}

TEST(Optimizer, TheRateMayChangeBetweenSteps) {
  Job job(2);
  job.optimizer.set_learning_rate(0);
  EXPECT_EQ(job.optimizer.learning_rate(), 0);
  job.run(rows_split({2, 1}), [&](ReplicaContext&, const at::Tensor& x) {
    job.optimizer.minimize(losses_of(job.model(x)));
  });
  EXPECT_TRUE(at::equal(job.value(0), at::full({3}, 2.0, at::kDouble)));
}

TEST(Optimizer, AnUpdateBetweenForwardAndBackwardIsNoticed) {
  Job job(2);
  const Error error = error_from([&] {
    job.run(rows_split({1, 1}), [&](ReplicaContext&, const at::Tensor& x) {
      const at::Tensor early = losses_of(job.model(x).square() * job.model->weight);
      job.optimizer.minimize(losses_of(job.model(x)));
      job.optimizer.minimize(early);
    });
  });
  EXPECT_TRUE(mentions(error, "modified by an inplace operation")) << error.what();
}

TEST(Optimizer, AReplicaThatMakesAnotherCallIsAnError) {
  Job job(2);
  const Error error = error_from([&] {
    job.run(rows_split({1, 1}), [&](ReplicaContext& context, const at::Tensor& x) {
      if (context.replica_id() == 0) {
        job.optimizer.minimize(losses_of(job.model(x)));
      } else {
        context.all_reduce(comm::ReduceOp::kSum, x);
      }
    });
  });
  EXPECT_TRUE(mentions(error, "apply_gradients") && mentions(error, "all_reduce(sum)"))
      << error.what();
  EXPECT_TRUE(at::equal(job.value(0), at::full({3}, 2.0, at::kDouble)));
}

/// Trains replicas on micro-batches split according to `splits`, accumulated into one update per
/// round, and one replica on all their rows in one batch; expects the same weights.
template <class Step>
void expect_as_one_batch(const std::vector<std::vector<std::int64_t>>& splits, const Step& step) {
  std::int64_t all = 0;
  for (const auto& split : splits) all += ExampleCounts::of(split).global;
  Job one(1);
  Job many(static_cast<int>(splits.front().size()),
           {.accumulate = static_cast<int>(splits.size())});
  const at::Tensor rows = rows_split({all})[0];
  for (int round = 0; round < 3; ++round) {
    one.run(rows_split({all}), [&](ReplicaContext&, const at::Tensor& x) { step(one, x, all); });
    std::int64_t begin = 0;
    for (const auto& split : splits) {
      std::vector<at::Tensor> local_batches;
      for (const std::int64_t size : split) {
        local_batches.push_back(rows.narrow(0, begin, size));
        begin += size;
      }
      many.run(PerReplica<at::Tensor>(std::move(local_batches), ExampleCounts::of(split)),
               [&](ReplicaContext&, const at::Tensor& x) { step(many, x, all); });
    }
  }
  EXPECT_EQ(many.optimizer.updates(), 3);
  for (std::size_t i = 0; i < one.model.variables().size(); ++i)
    EXPECT_TRUE(many.value(i).allclose(one.value(i), 1e-12, 1e-14)) << i;
  EXPECT_FALSE(one.value(0).allclose(at::full({3}, 2.0, at::kDouble))) << "nothing was learned";
}

const std::vector<std::vector<std::vector<std::int64_t>>> kMicroBatches = {
    {{2}, {2}},       {{5}, {1}, {3}},          {{2, 2}, {2, 2}},
    {{3, 2}, {1, 0}}, {{0, 3}, {4, 0}, {1, 1}}, {{1, 1, 0}, {4, 3, 3}, {0, 0, 0}},
};

TEST(Accumulation, IsOneStepOnTheMicroBatchesTogether) {
  for (const auto& splits : kMicroBatches) {
    expect_as_one_batch(splits, [](Job& job, const at::Tensor& x, std::int64_t) {
      job.optimizer.minimize(losses_of(job.model(x)));
    });
    expect_as_one_batch(splits, [](Job& job, const at::Tensor& x, std::int64_t) {
      job.optimizer.minimize((job.model(x) - 1).square());
    });
    expect_as_one_batch(splits, [](Job& job, const at::Tensor& x, std::int64_t) {
      job.optimizer.minimize(losses_of(job.model(x)).mean());
    });
    expect_as_one_batch(splits, [](Job& job, const at::Tensor& x, std::int64_t) {
      job.optimizer.minimize(0.1 * losses_of(job.model(x)), LossScale::kSum);
    });
    expect_as_one_batch(splits, [](Job& job, const at::Tensor& x, std::int64_t all) {
      job.optimizer.minimize(losses_of(job.model(x)).sum() / static_cast<double>(all),
                             LossScale::kAlreadyScaled);
    });
  }
}

TEST(Accumulation, CountsLossesPerExampleOfBatchesThatWereNotDistributed) {
  Job one(1);
  Job two(2, {.accumulate = 2});
  const at::Tensor rows = rows_split({7})[0];
  one.strategy.run([&](ReplicaContext&) { one.optimizer.minimize(losses_of(one.model(rows))); });
  const std::vector<std::vector<std::pair<int, int>>> local_batches = {{{0, 3}, {3, 1}},
                                                                       {{4, 1}, {5, 2}}};
  for (const auto& micro_batch : local_batches) {
    two.strategy.run([&](ReplicaContext& context) {
      const auto [begin, size] = micro_batch[static_cast<std::size_t>(context.replica_id())];
      two.optimizer.minimize(losses_of(two.model(rows.narrow(0, begin, size))));
    });
  }
  EXPECT_TRUE(two.value(0).allclose(one.value(0), 1e-12));
}

TEST(Accumulation, UpdatesOnlyInTheLastStepOfAGroup) {
  Job job(2, {.accumulate = 3});
  const auto step = [&] {
    job.run(rows_split({2, 1}), [&](ReplicaContext&, const at::Tensor& x) {
      job.optimizer.minimize(losses_of(job.model(x)));
    });
  };
  at::Tensor before = job.value(0);
  for (int call = 1; call <= 6; ++call) {
    step();
    const bool updated = call % 3 == 0;
    EXPECT_EQ(job.optimizer.is_update_step(), updated) << call;
    EXPECT_EQ(job.optimizer.micro_batches(), call % 3);
    EXPECT_EQ(job.optimizer.updates(), call / 3);
    EXPECT_EQ(job.optimizer.state().step(0), call / 3);
    EXPECT_EQ(at::equal(job.value(0), before), !updated) << call;
    before = job.value(0);
  }
}

TEST(Accumulation, AFlushAppliesWhatIsLeftAsOneSmallerBatch) {
  enum class Where { kOutside, kInReplicas };
  for (const Where where : {Where::kOutside, Where::kInReplicas}) {
    Job one(1);
    one.run(rows_split({5}), [&](ReplicaContext&, const at::Tensor& x) {
      one.optimizer.minimize(losses_of(one.model(x)));
    });
    Job two(2, {.accumulate = 4});
    const at::Tensor rows = rows_split({5})[0];
    const auto feed = [&](std::int64_t begin, std::vector<std::int64_t> sizes) {
      std::vector<at::Tensor> local_batches = {rows.narrow(0, begin, sizes[0]),
                                               rows.narrow(0, begin + sizes[0], sizes[1])};
      two.run(PerReplica<at::Tensor>(std::move(local_batches), ExampleCounts::of(sizes)),
              [&](ReplicaContext&, const at::Tensor& x) {
                two.optimizer.minimize(losses_of(two.model(x)).mean());
              });
    };
    const auto flush = [&] {
      if (where == Where::kOutside) return two.optimizer.flush();
      two.strategy.run([&](ReplicaContext&) { two.optimizer.flush(); });
    };
    flush();
    EXPECT_EQ(two.optimizer.updates(), 0) << "nothing was accumulated";
    feed(0, {3, 1});
    feed(4, {1, 0});
    flush();
    EXPECT_EQ(two.optimizer.updates(), 1);
    EXPECT_TRUE(two.optimizer.is_update_step());
    EXPECT_TRUE(two.value(0).allclose(one.value(0), 1e-12, 1e-14));
    flush();
    EXPECT_EQ(two.optimizer.updates(), 1);
    EXPECT_EQ(two.optimizer.state().step(2), 0) << "the unused parameter's";
  }
}

TEST(Accumulation, AFlushCountsTheExamplesOfBatchesThatWereNotDistributed) {
  Job one(1);
  Job two(2, {.accumulate = 9});
  const at::Tensor rows = rows_split({4})[0];
  one.strategy.run([&](ReplicaContext&) { one.optimizer.minimize(losses_of(one.model(rows))); });
  two.strategy.run([&](ReplicaContext& context) {
    const bool first = context.replica_id() == 0;
    two.optimizer.minimize(losses_of(two.model(rows.narrow(0, first ? 0 : 3, first ? 3 : 1))));
  });
  two.optimizer.flush();
  EXPECT_TRUE(two.value(0).allclose(one.value(0), 1e-12));
}

TEST(Accumulation, GradientsAppliedByHandAreNotAccumulated) {
  Job by_hand(2, {.accumulate = 5});
  Job plain(2);
  for (Job* job : {&by_hand, &plain}) {
    job->run(rows_split({2, 1}), [&](ReplicaContext&, const at::Tensor& x) {
      const auto local = job->optimizer.compute_gradients(losses_of(job->model(x)));
      job->optimizer.apply_gradients(job->optimizer.aggregate(local));
    });
  }
  EXPECT_TRUE(at::equal(by_hand.value(0), plain.value(0)));
  EXPECT_EQ(by_hand.optimizer.updates(), 1);
  EXPECT_EQ(by_hand.optimizer.micro_batches(), 0);
}

TEST(Accumulation, AFailedStepCanBeDiscarded) {
  Job job(2, {.accumulate = 3});
  const auto step = [&](int failing) {
    job.run(rows_split({1, 1}), [&](ReplicaContext& context, const at::Tensor& x) {
      if (context.replica_id() == failing) throw Error(ErrorCode::kInternal, "no luck");
      job.optimizer.minimize(losses_of(job.model(x)));
    });
  };
  EXPECT_EQ(error_from([&] { step(1); }).code(), ErrorCode::kInternal);
  const Error uneven = error_from([&] { job.optimizer.flush(); });
  EXPECT_EQ(uneven.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(uneven, "discard")) << uneven.what();
  job.optimizer.discard();
  EXPECT_EQ(job.optimizer.micro_batches(), 0);
  step(-1);
  job.optimizer.flush();
  EXPECT_EQ(job.optimizer.updates(), 1);
}

TEST(Accumulation, FrozenVariablesDoNotChange) {
  Job job(2, {.groups = {{.names = {"bias"}, .frozen = true}}, .accumulate = 2});
  for (int i = 0; i < 2; ++i) {
    job.run(rows_split({2, 1}), [&](ReplicaContext&, const at::Tensor& x) {
      job.optimizer.minimize(losses_of(job.model(x)));
    });
  }
  EXPECT_TRUE(at::equal(job.value(1), at::zeros({3}, at::kDouble)));
  EXPECT_FALSE(at::equal(job.value(0), at::full({3}, 2.0, at::kDouble)));
}

TEST(Accumulation, RefusesLessThanOneMicroBatch) {
  for (const int wrong : {0, -1}) {
    EXPECT_EQ(error_from([&] { Job job(1, {.accumulate = wrong}); }).code(),
              ErrorCode::kInvalidArgument);
  }
}

TEST(GlobalStep, CountsUpdatesInEveryReplica) {
  MirroredStrategy strategy(cpus(2));
  const auto scope = strategy.scope();
  const auto model = strategy.create<AffineModule>();
  const auto global_step = variables::make_variable(
      {.name = "global_step", .initial = at::zeros({}, at::kLong), .trainable = false});
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1},
                                      {.accumulate = 2, .global_step = global_step});
  const auto step = [&] {
    strategy.run([&](ReplicaContext&, const at::Tensor& x) { sgd.minimize(losses_of(model(x))); },
                 rows_split({2, 1}));
  };
  const auto expect = [&](std::int64_t count) {
    for (const int replica : {0, 1})
      EXPECT_EQ(global_step.component(replica).item<std::int64_t>(), count) << replica;
  };
  step();
  expect(0);
  step();
  expect(1);
  step();
  sgd.flush();
  expect(2);
  EXPECT_NO_THROW(global_step.check_untouched(0));
  global_step.assign(at::full({}, 40, at::kLong));
  step();
  step();
  expect(41);
}

TEST(GlobalStep, MustBeOneIntegerThatIsNotTrained) {
  MirroredStrategy strategy(cpus(1));
  const auto scope = strategy.scope();
  const auto model = strategy.create<AffineModule>();
  for (const at::Tensor& wrong : {at::zeros({}), at::zeros({2}, at::kLong)}) {
    const auto variable =
        variables::make_variable({.name = "wrong", .initial = wrong, .trainable = false});
    EXPECT_EQ(error_from([&] {
                strategy.optimizer(model, optim::Sgd{}, {.global_step = variable});
              }).code(),
              ErrorCode::kInvalidArgument);
  }
}

TEST(Optimizer, OfAnotherStrategyIsRefusedNamingBoth) {
  Job mine(2);
  Job others(2);
  const Error error = error_from([&] {
    mine.run(rows_split({1, 1}), [&](ReplicaContext&, const at::Tensor& x) {
      others.optimizer.minimize(losses_of(mine.model(x)));
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "An optimizer of the strategy mirrored (cpu:0, cpu:1)"))
      << error.what();
  EXPECT_TRUE(mentions(error, "another, mirrored (cpu:0, cpu:1)")) << error.what();
}

TEST(Optimizer, OfAnotherStrategysVariablesIsRefused) {
  Job mine(2);
  Job others(2);
  const Error error =
      error_from([&] { mine.strategy.optimizer(others.model, optim::Sgd{.learning_rate = 0.1}); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "'weight'") && mentions(error, "mirrored")) << error.what();
}

TEST(Optimizer, CannotBeMadeInsideRun) {
  Job job(2);
  const auto make = [&] { job.strategy.optimizer(job.model, optim::Sgd{.learning_rate = 0.1}); };
  const Error in_replica = error_from([&] { job.strategy.run([&](ReplicaContext&) { make(); }); });
  EXPECT_EQ(in_replica.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(in_replica, "An optimizer was made inside of Strategy::run"))
      << in_replica.what();
  const Error in_merge_call = error_from([&] {
    job.strategy.run(
        [&](ReplicaContext& context) { context.merge_call([&](Strategy&) { make(); }); });
  });
  EXPECT_EQ(in_merge_call.code(), ErrorCode::kFailedPrecondition);
  EXPECT_NO_THROW(make());
}

TEST(Optimizer, AParameterThatWasFrozenAfterItsCreationIsNamed) {
  Job job(2);
  const auto freeze = [&](bool frozen) {
    for (const int replica : {0, 1}) job.model.replica(replica).bias.set_requires_grad(!frozen);
  };
  const auto minimize = [&] {
    job.run(rows_split({1, 1}), [&](ReplicaContext&, const at::Tensor& x) {
      job.optimizer.minimize(losses_of(job.model(x)));
    });
  };
  freeze(true);
  for (const Error& error : {error_from(minimize), error_from([&] {
                               job.strategy.optimizer(job.model, optim::Sgd{.learning_rate = 0.1});
                             })}) {
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_TRUE(mentions(error, "Variable 'bias'")) << error.what();
    EXPECT_TRUE(mentions(error, "set_requires_grad(false) before")) << error.what();
  }
  EXPECT_NO_THROW(job.strategy.optimizer(job.model, optim::Sgd{.learning_rate = 0.1},
                                         {.groups = {{.names = {"bias"}, .frozen = true}}}));
  freeze(false);
  EXPECT_NO_THROW(minimize());
}

TEST(Optimizer, AModelThatIsCompletelyFrozenIsNamedToo) {
  Job job(1);
  for (at::Tensor& parameter : job.model->parameters()) parameter.set_requires_grad(false);
  const Error error = error_from([&] {
    job.run(rows_split({1}), [&](ReplicaContext&, const at::Tensor& x) {
      job.optimizer.minimize(losses_of(job.model(x)));
    });
  });
  EXPECT_TRUE(mentions(error, "Variable 'weight'")) << error.what();
}

TEST(Optimizer, AParameterThatWasUnfrozenAfterItsCreationIsNamed) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create([] {
    auto line = std::make_shared<AffineModule>();
    line->bias.set_requires_grad(false);
    return line;
  });
  EXPECT_NO_THROW(strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1}));
  model->bias.set_requires_grad(true);
  const Error error =
      error_from([&] { strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1}); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "Variable 'bias'")) << error.what();
}

/// Adds an update op that increments `count`.
void count_with_update(std::atomic<int>& count) {
  variables::require_graph("a test").add_update_op("count", [&] { ++count; });
}

TEST(Optimizer, UpdateOpsRunWithTheUpdateAndNotInAStepThatFails) {
  Job job(2);
  std::atomic<int> count = 0;
  for (const bool fails : {true, false}) {
    const Error error = error_from([&] {
      job.run(rows_split({2, 2}), [&](ReplicaContext& context, const at::Tensor& x) {
        count_with_update(count);
        if (fails && context.replica_id() == 1) throw Error(ErrorCode::kDataLoss, "it fell over");
        job.optimizer.minimize(losses_of(job.model(x)));
        EXPECT_GE(count, 1);
      });
    });
    EXPECT_EQ(mentions(error, "it fell over"), fails) << error.what();
    EXPECT_EQ(count, fails ? 0 : 2);
  }
}

TEST(Optimizer, UpdateOpsRunIfGradientsAreAppliedElsewhereOrAccumulated) {
  Job job(2);
  std::atomic<int> count = 0;
  job.run(rows_split({2, 2}), [&](ReplicaContext&, const at::Tensor& x) {
    count_with_update(count);
    (void)job.optimizer.compute_gradients(losses_of(job.model(x)));
  });
  EXPECT_EQ(count, 2);
  Job accumulating(2, {.accumulate = 2});
  for (int step = 0; step < 2; ++step) {
    accumulating.run(rows_split({2, 2}), [&](ReplicaContext&, const at::Tensor& x) {
      count_with_update(count);
      accumulating.optimizer.minimize(losses_of(accumulating.model(x)));
    });
  }
  EXPECT_EQ(count, 6);
}

}  // namespace
}  // namespace brigade::distribute
