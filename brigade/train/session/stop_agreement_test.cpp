// How the workers of a session agree on stopping: in the calls that their steps make anyway. The
// workers are threads.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/base/testing/manual_clock.h"
#include "brigade/concurrency/signal.h"
#include "brigade/distribute/testing/card_workers.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/input/synthetic.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/optim/sgd.h"
#include "brigade/train/callbacks/checkpoint_callbacks.h"
#include "brigade/train/hooks/checkpoint_saver_hook.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/model/model.h"
#include "brigade/train/session/session.h"
#include "brigade/train/testing/tiny_model.h"

namespace brigade::train {
namespace {

using distribute::Strategy;
using CallCounts = std::vector<std::int64_t>;

// libtorch counts the devices when its first backward begins.
[[maybe_unused]] const device::testing::FakeDevice& registered_before_sessions =
    device::testing::FakeDevice::get();

constexpr std::int64_t kLastStep = 9;     // unless a request comes first
constexpr std::int64_t kRequestStep = 5;  // of the request

struct Scale : torch::nn::Module {
  explicit Scale(const c10::Device& device) {
    weight = register_parameter("weight", at::full({3}, 2.0, at::kDouble).to(device));
  }
  at::Tensor weight;
};

/// A training whose steps make one call of the workers: that for the gradients.
struct OneCallTraining {
  explicit OneCallTraining(Strategy& of)
      : strategy(of),
        model(of.create<Scale>(of.devices().front().torch_device)),
        optimizer(of.optimizer(model, optim::Sgd{.learning_rate = 0.1})),
        state(of) {
    state.add_created();
  }
  /// The fake card does its work before anything that it reads is gone.
  ~OneCallTraining() {
    if (strategy.devices().front().is_cpu()) return;
    try {
      strategy.workers()->communicator->barrier();
    } catch (const Error&) {  // of an earlier call; the workers have then begun the same calls
    }
    model.variables()[0].component(0).to(c10::kCPU);
  }
  OneCallTraining(const OneCallTraining&) = delete;
  OneCallTraining& operator=(const OneCallTraining&) = delete;

  void step() {
    strategy.run([&](distribute::ReplicaContext&) {
      optimizer.minimize(model.local().weight.square().sum(),
                         distribute::LossScale::kAlreadyScaled);
    });
  }
  void step_without_call() const {
    strategy.run([](distribute::ReplicaContext&) {});
  }
  std::int64_t calls() const { return strategy.workers()->communicator->traffic().collectives; }

  Strategy& strategy;
  distribute::Replicated<Scale> model;
  distribute::Optimizer optimizer;
  TrainingState state;
};

/// When a worker requests a stop, in step `kRequestStep` or after it.
enum class Moment { kBeforeRun, kBeforeTheCall, kAfterTheCall, kAfterRun, kBetweenRuns };
constexpr Moment kMoments[] = {Moment::kBeforeRun, Moment::kBeforeTheCall, Moment::kAfterTheCall,
                               Moment::kAfterRun, Moment::kBetweenRuns};

struct StopRequest {
  Moment moment = Moment::kBeforeTheCall;
  std::optional<int> worker = 1;  // unset: all
  AtStop at_stop = AtStop::kSave;
  RequestedBy by = RequestedBy::kThisWorker;
};

struct StoppingJob {
  std::vector<int> replicas = {1, 1};
  bool on_cards = false;
  std::vector<StopRequest> requests = {};
  std::int64_t steps_per_round = 1;
  /// Whether the step of this number makes its call.
  std::function<bool(std::int64_t)> makes_call = [](std::int64_t) { return true; };
  /// Of all workers; null: each has its own.
  std::shared_ptr<io::FileSystem> files = nullptr;
  std::function<void(SessionOptions&)> change = {};
};

/// What one worker saw.
struct WorkerRun {
  CallCounts calls;  // of the workers, in each round
  std::int64_t last_step = 0;
  AtStop at_stop = AtStop::kSave;
};

class CallingHook final : public SessionRunHook {
 public:
  using Function = std::function<void(SessionContext&)>;
  CallingHook(Function before, Function after)
      : before_(std::move(before)), after_(std::move(after)) {}
  void before_run(SessionContext& context) override { before_(context); }
  void after_run(SessionContext& context, const StepValues&) override { after_(context); }

 private:
  const Function before_, after_;
};

WorkerRun run_worker(Strategy& strategy, const StoppingJob& job) {
  OneCallTraining training(strategy);
  const auto request_at = [&](Moment moment, std::int64_t step, SessionContext& context) {
    for (const StopRequest& request : job.requests) {
      const bool is_mine =
          request.worker.value_or(strategy.worker_index()) == strategy.worker_index();
      if (is_mine && request.moment == moment && step == kRequestStep)
        context.request_stop(request.at_stop, request.by);
    }
  };
  SessionOptions options{
      .hooks = {std::make_shared<CallingHook>(
                    [&](SessionContext& context) {
                      request_at(Moment::kBeforeRun, context.global_step() + 1, context);
                    },
                    [&](SessionContext& context) {
                      request_at(Moment::kAfterRun, context.global_step(), context);
                    }),
                StopAtStepHook{.last_step = kLastStep}}};
  if (job.change) job.change(options);
  MonitoredTrainingSession session(
      training.state, options,
      {.files = job.files ? job.files : std::make_shared<io::MemoryFileSystem>()});
  WorkerRun run;
  while (!session.should_stop()) {
    const std::int64_t before = training.calls();
    session.run_steps(
        [&]() -> std::optional<StepValues> {
          const std::int64_t step = training.state.global_step() + 1;
          request_at(Moment::kBeforeTheCall, step, session.context());
          job.makes_call(step) ? training.step() : training.step_without_call();
          request_at(Moment::kAfterTheCall, step, session.context());
          return StepValues();
        },
        [&](std::int64_t made) { return made < job.steps_per_round; });
    run.calls.push_back(training.calls() - before);
    request_at(Moment::kBetweenRuns, training.state.global_step(), session.context());
  }
  session.close();
  run.last_step = training.state.global_step();
  run.at_stop = session.context().at_stop();
  return run;
}

/// Calls `work` in each worker of a job, and returns what it returned.
template <class Work>
auto run_all(const StoppingJob& job, const Work& work) {
  std::mutex mutex;
  std::vector<decltype(work(std::declval<Strategy&>()))> all(job.replicas.size());
  const auto keep = [&](Strategy& strategy) {
    auto result = work(strategy);
    const std::lock_guard lock(mutex);
    all[static_cast<std::size_t>(strategy.worker_index())] = std::move(result);
  };
  if (job.on_cards) {
    distribute::run_card_workers(static_cast<int>(job.replicas.size()), keep);
  } else {
    distribute::run_workers(job.replicas, keep);
  }
  return all;
}

std::vector<WorkerRun> run_stopping_job(const StoppingJob& job) {
  return run_all(job, [&](Strategy& strategy) { return run_worker(strategy, job); });
}

/// All workers have stopped like worker 0, which is returned.
WorkerRun run_together(const StoppingJob& job) {
  const std::vector<WorkerRun> all = run_stopping_job(job);
  for (const WorkerRun& each : all) {
    EXPECT_EQ(each.last_step, all[0].last_step);
    EXPECT_EQ(each.at_stop, all[0].at_stop);
    EXPECT_EQ(each.calls, all[0].calls);
  }
  return all[0];
}

/// Jobs on CPUs and on the fake card with the fake NCCL.
std::vector<StoppingJob> stopping_jobs() {
  return {{}, {.replicas = {2, 1}}, {.replicas = {1, 1, 1}}, {.on_cards = true}};
}

TEST(StopAgreement, AStepHasOneCallOfTheWorkers) {
  for (const StoppingJob& job : stopping_jobs()) {
    const WorkerRun run = run_together(job);
    EXPECT_EQ(run.last_step, kLastStep);
    // They ask before the first step, and after the last, of which all know that it is the last.
    EXPECT_EQ(run.calls, (CallCounts{2, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  }
}

TEST(StopAgreement, RoundsOfSeveralStepsHaveOneCallAStep) {
  for (StoppingJob job : stopping_jobs()) {
    job.steps_per_round = 4;
    EXPECT_EQ(run_together(job).calls, (CallCounts{5, 4, 1, 1}));
  }
}

TEST(StopAgreement, AWorkersOwnRequestStopsAllAfterTheSameStep) {
  for (const Moment moment : kMoments) {
    const bool is_before = moment == Moment::kBeforeRun || moment == Moment::kBeforeTheCall;
    for (const AtStop at_stop : {AtStop::kSave, AtStop::kDiscard}) {
      for (StoppingJob job : stopping_jobs()) {
        SCOPED_TRACE(static_cast<int>(moment));
        job.requests = {{.moment = moment, .at_stop = at_stop}};
        const WorkerRun run = run_together(job);
        EXPECT_EQ(run.last_step, is_before ? kRequestStep : kRequestStep + 1);
        EXPECT_EQ(run.at_stop, at_stop);
        EXPECT_EQ(run.calls.front(), 2);
        EXPECT_EQ(run.calls.back(), 0) << "all know of the request";
      }
    }
  }
}

TEST(StopAgreement, ARequestOfEveryWorkerStopsAllAtOnce) {
  for (const Moment moment : kMoments) {
    for (StoppingJob job : stopping_jobs()) {
      SCOPED_TRACE(static_cast<int>(moment));
      job.requests = {{.moment = moment, .worker = std::nullopt, .by = RequestedBy::kEveryWorker}};
      const WorkerRun run = run_together(job);
      EXPECT_EQ(run.last_step, kRequestStep);
      EXPECT_EQ(run.at_stop, AtStop::kSave);
    }
  }
}

TEST(StopAgreement, OfDifferentRequestsDiscardingCountsMore) {
  const RequestedBy by = RequestedBy::kEveryWorker;
  const WorkerRun run = run_together(
      {.requests = {
           {.moment = Moment::kAfterRun, .worker = 0, .by = by},
           {.moment = Moment::kAfterRun, .worker = 1, .at_stop = AtStop::kDiscard, .by = by}}});
  EXPECT_EQ(run.last_step, kRequestStep);
  EXPECT_EQ(run.at_stop, AtStop::kDiscard);
}

TEST(StopAgreement, RoundsEndBeforeAllStop) {
  StoppingJob job{.requests = {{.moment = Moment::kBeforeTheCall}}, .steps_per_round = 3};
  EXPECT_EQ(run_together(job).last_step, 6) << "at the end of the round of the request";
  job.steps_per_round = kRequestStep;
  for (const Moment moment : {Moment::kAfterTheCall, Moment::kAfterRun}) {
    job.requests = {{.moment = moment}};
    EXPECT_EQ(run_together(job).last_step, kLastStep) << "at the end of the next";
    job.requests = {{.moment = moment, .worker = std::nullopt, .by = RequestedBy::kEveryWorker}};
    EXPECT_EQ(run_together(job).last_step, kRequestStep);
  }
}

TEST(StopAgreement, StepsWithoutCallsAreFollowedByOne) {
  for (const Moment moment : kMoments) {
    const WorkerRun run = run_together(
        {.requests = {{.moment = moment}}, .makes_call = [](std::int64_t) { return false; }});
    EXPECT_EQ(run.last_step, kRequestStep);
    EXPECT_EQ(run.calls, CallCounts(kRequestStep + 1, 1));
  }
  const WorkerRun every_second =
      run_together({.makes_call = [](std::int64_t step) { return step % 2 == 1; }});
  EXPECT_EQ(every_second.last_step, kLastStep);
  EXPECT_EQ(every_second.calls, (CallCounts{2, 0, 2, 0, 2, 0, 2, 0, 2, 1}));
}

// What was known from an earlier step of the round is not enough.
TEST(StopAgreement, ARoundThatEndsWithAStepWithoutACallIsFollowedByOne) {
  const WorkerRun run =
      run_together({.requests = {{.moment = Moment::kAfterTheCall}},
                    .steps_per_round = 2,
                    .makes_call = [](std::int64_t step) { return step % 2 == 1; }});
  EXPECT_EQ(run.last_step, kRequestStep + 1);
  EXPECT_EQ(run.calls, (CallCounts{2, 2, 2, 1}));
}

TEST(StopAgreement, AfterASaveTheyAsk) {
  struct StoppingListener final : CheckpointListener {
    AfterSave after_save(SessionContext& context) override {
      return context.global_step() == kRequestStep ? AfterSave::kStop : AfterSave::kContinue;
    }
  };
  const auto run_with = [](bool stops) {
    return run_all({}, [&](Strategy& strategy) {
      return run_worker(strategy, {.change = [&](SessionOptions& options) {
                          CheckpointSaverHook saving{.saver = {.directory = "/run"},
                                                     .every = {.steps = kRequestStep}};
                          if (stops && strategy.worker_index() == 1)
                            saving.listeners = {std::make_shared<StoppingListener>()};
                          options.hooks.emplace_back(saving);
                        }});
    });
  };
  for (const WorkerRun& run : run_with(true)) EXPECT_EQ(run.last_step, kRequestStep);
  for (const WorkerRun& run : run_with(false)) EXPECT_EQ(run.last_step, kLastStep);
}

TEST(StopAgreement, NothingIsSavedOnceAllKnowThatTheStateIsDiscarded) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  StoppingJob job{.requests = {{.moment = Moment::kAfterRun, .at_stop = AtStop::kDiscard}},
                  .files = files,
                  .change = [](SessionOptions& options) {
                    options.hooks.emplace_back(CheckpointSaverHook{
                        .saver = {.directory = "/run"}, .every = {.steps = kRequestStep + 1}});
                  }};
  EXPECT_EQ(run_together(job).last_step, kRequestStep + 1);
  EXPECT_TRUE(files->exists("/run/ckpt-0"));
  EXPECT_FALSE(files->exists(base::str_cat("/run/ckpt-", kRequestStep + 1)));
  job.requests[0].at_stop = AtStop::kSave;
  EXPECT_EQ(run_together(job).last_step, kRequestStep + 1);
  EXPECT_TRUE(files->exists(base::str_cat("/run/ckpt-", kRequestStep + 1)));
}

TEST(ChiefsTimers, ASaveByTimeIsKnownFromTheCallsOfTheStep) {
  struct SavedSteps final : CheckpointListener {
    AfterSave after_save(SessionContext& context) override {
      steps.push_back(context.global_step());
      return AfterSave::kContinue;
    }
    CallCounts steps;
  };
  struct Seen {
    CallCounts saved, calls;
  };
  for (const bool has_calls : {true, false}) {
    const auto all = run_all({}, [&](Strategy& strategy) {
      OneCallTraining training(strategy);
      base::ManualClock clock;
      const auto listener = std::make_shared<SavedSteps>();
      const CheckpointSaverHook saving{.saver = {.directory = "/run"},
                                       .every = {.steps = 4, .time = std::chrono::seconds(100)},
                                       .listeners = {listener}};
      MonitoredTrainingSession session(
          training.state, {.hooks = {saving, StopAtStepHook{.last_step = kLastStep}}},
          {.files = std::make_shared<io::MemoryFileSystem>(), .clock = &clock});
      Seen seen;
      while (!session.should_stop()) {
        const std::int64_t before = training.calls();
        session.run([&] {
          // The chief's hundred seconds are over in step 2, the other worker's in each step.
          if (!strategy.is_chief() || training.state.global_step() == 1)
            clock.advance(std::chrono::seconds(100));
          has_calls ? training.step() : training.step_without_call();
          return StepValues();
        });
        seen.calls.push_back(training.calls() - before);
      }
      session.close();
      seen.saved = listener->steps;
      return seen;
    });
    for (const Seen& seen : all) {
      EXPECT_EQ(seen.saved, (CallCounts{0, 2, 6, 9}));
      if (!has_calls) continue;
      // After the saves of steps 2 and 6 they ask whether to stop.
      EXPECT_EQ(
          (CallCounts{seen.calls[0], seen.calls[2], seen.calls[3], seen.calls[4], seen.calls[6]}),
          (CallCounts{2, 2, 1, 1, 2}));
    }
  }
}

TEST(StopAgreement, AHookOfTheChiefAloneIsOneWorker) {
  const WorkerRun run = run_together({.change = [](SessionOptions& options) {
    options.chief_only_hooks = {StopAtStepHook{.last_step = kRequestStep}};
  }});
  EXPECT_EQ(run.last_step, kRequestStep + 1);
}

TEST(StopAgreement, CloseKnowsWhatWasRequestedBeforeTheLastCall) {
  const auto at_stop = run_all({}, [](Strategy& strategy) {
    OneCallTraining training(strategy);
    MonitoredTrainingSession session(training.state);
    session.run([&] {
      if (strategy.worker_index() == 1) session.request_stop(AtStop::kDiscard);
      training.step();
      return StepValues();
    });
    const std::int64_t before = training.calls();
    session.close();
    EXPECT_EQ(training.calls(), before);
    return session.context().at_stop();
  });
  EXPECT_EQ(at_stop, std::vector(2, AtStop::kDiscard));
}

TEST(StopAgreement, ARequestThatNotEveryWorkerMakesIsAnErrorThatNamesTheWorker) {
  for (const Moment moment : {Moment::kAfterTheCall, Moment::kAfterRun, Moment::kBetweenRuns}) {
    for (StoppingJob job : {StoppingJob{}, StoppingJob{.on_cards = true}}) {
      job.requests = {{.moment = moment, .by = RequestedBy::kEveryWorker}};
      const auto errors = run_all(job, [&](Strategy& strategy) {
        const Error error = distribute::error_from([&] { run_worker(strategy, job); });
        EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
        return std::string(error.what());
      });
      for (const std::string& error : errors) {
        EXPECT_NE(error.find("rank 1 is before step 5"), std::string::npos) << error;
        EXPECT_NE(error.find("to agree on stopping"), std::string::npos) << error;
        EXPECT_NE(error.find("rank 0 is in step 5"), std::string::npos) << error;
      }
    }
  }
}

// The workers have then begun differently many steps.
TEST(StopAgreement, AfterAFailedStepAnotherSessionAgreesAgain) {
  for (const bool fails_after_call : {false, true}) {
    const auto runs = run_all({}, [&](Strategy& strategy) {
      {
        OneCallTraining training(strategy);
        MonitoredTrainingSession session(training.state);
        const Error error = distribute::error_from([&] {
          for (int step = 1;; ++step) {
            session.run([&]() -> StepValues {
              const bool fails = step == 3 && strategy.worker_index() == 1;
              if (fails && !fails_after_call)
                strategy.run([](distribute::ReplicaContext&) {
                  throw Error(ErrorCode::kInternal, "it fell over");
                });
              training.step();
              if (fails)
                strategy.run([](distribute::ReplicaContext&) {
                  throw Error(ErrorCode::kInternal, "it fell over");
                });
              return {};
            });
          }
        });
        EXPECT_TRUE(distribute::mentions(error, "it fell over")) << error.what();
      }
      return run_worker(strategy, {.requests = {{.moment = Moment::kAfterRun}}});
    });
    for (const WorkerRun& run : runs) EXPECT_EQ(run.last_step, kRequestStep + 1);
  }
}

// What the workers have for the next step is known, too.
TEST(StopAgreement, WithDataOfEachWorkerAStepHasOneCall) {
  constexpr int kBatches = 12;
  for (const bool on_cards : {false, true}) {
    const auto all = run_all({.on_cards = on_cards}, [](Strategy& strategy) {
      concurrency::Signal read;
      const auto data = strategy.distribute_from_function(
          [&](const distribute::InputContext&) {
            return input::synthetic(2 * kBatches, {2}, 3)
                .batch(2)
                .map([&read](input::LabeledBatch batch) {
                  read.raise();
                  return batch;
                });
          },
          {.per_replica_buffer_size = 2 * kBatches});
      OneCallTraining training(strategy);
      auto batches = data.iterator();
      MonitoredTrainingSession session(training.state);
      CallCounts calls;
      while (!session.should_stop()) {
        const std::int64_t before = training.calls();
        session.run([&]() -> std::optional<StepValues> {
          const auto batch = batches.next();
          if (!batch) return std::nullopt;
          EXPECT_TRUE(
              read.wait_for(kBatches, std::chrono::microseconds(0), std::chrono::seconds(30)));
          training.step();
          return StepValues();
        });
        calls.push_back(training.calls() - before);
      }
      session.close();
      return calls;
    });
    for (const CallCounts& calls : all) {
      ASSERT_GT(calls.size(), static_cast<std::size_t>(kBatches));
      // The last ones may still be on their way from the thread that prefetches.
      EXPECT_EQ(CallCounts(calls.begin() + 1, calls.begin() + kBatches - 2),
                CallCounts(kBatches - 3, 1));
    }
  }
}

/// One worker's fit of three epochs of four batches.
struct FitOfWorker {
  std::int64_t steps = 0;
  CallCounts calls;  // of the workers, from the end of each batch to the end of the next
};

struct FitCase {
  using Function = std::function<void(FitContext&, int worker, const concurrency::CancelToken&)>;
  Function at_batch_end = [](FitContext&, int, const concurrency::CancelToken&) {};
  Function at_epoch_end = at_batch_end;
  std::vector<int> replicas = {1, 1};
  bool on_cards = false;
  CompileOptions compile = {.optimizer = optim::Sgd{.learning_rate = 0.1}, .loss = "mse"};
};

FitOfWorker fit_worker(Strategy& strategy, const FitCase& test) {
  const int worker = strategy.worker_index();
  const concurrency::CancelToken cancel;
  const auto calls = [&] { return strategy.workers()->communicator->traffic().collectives; };
  FitOfWorker run;
  std::int64_t last = 0;
  Model model(strategy, line());
  model.compile(test.compile);
  FitOptions options{
      .epochs = 3,
      .batch_size = 10,
      .callbacks = {LambdaCallback{
          .on_epoch_begin = [&](FitContext&) { last = calls(); },
          .on_epoch_end = [&](FitContext& fit) { test.at_epoch_end(fit, worker, cancel); },
          .on_train_batch_end =
              [&](FitContext& fit) {
                run.calls.push_back(calls() - last);
                // The fake card can be read when all workers have queued their work.
                if (test.on_cards) strategy.workers()->communicator->barrier();
                last = calls();
                test.at_batch_end(fit, worker, cancel);
              }}},
      .verbose = Verbose::kSilent};
  options.session.cancel = cancel;
  model.fit(line_data(40), options);
  run.steps = model.global_step();
  return run;
}

std::vector<FitOfWorker> fit_workers(const FitCase& test) {
  return run_all({.replicas = test.replicas, .on_cards = test.on_cards},
                 [&](Strategy& strategy) { return fit_worker(strategy, test); });
}

// A step of a fit has a call for its gradients, with which its loss goes.
TEST(StopAgreement, AFitAsksOnceAnEpoch) {
  for (const bool on_cards : {false, true}) {
    for (const std::vector<int>& replicas : {std::vector{1, 1}, {2, 1}}) {
      for (const FitOfWorker& run : fit_workers({.replicas = replicas, .on_cards = on_cards})) {
        EXPECT_EQ(run.steps, 12);
        EXPECT_EQ(run.calls, (CallCounts{2, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1}));
      }
    }
  }
}

TEST(StopAgreement, AStepOfTheProgramsOwnInAFitMakesACallForItsValues) {
  const CustomTrainStep step({"loss"}, [](TrainStepContext& context, const ModelBatch& batch) {
    const at::Tensor loss = context.compute_loss(batch, context.forward(batch.input()));
    context.optimizer().minimize(loss);
    return input::NamedTensors({{"loss", loss}});
  });
  for (const FitOfWorker& run : fit_workers(
           {.compile = {
                .optimizer = optim::Sgd{.learning_rate = 0.1}, .loss = "mse", .train_step = step}}))
    EXPECT_EQ(run.calls, (CallCounts{3, 2, 2, 2, 3, 2, 2, 2, 3, 2, 2, 2}));
}

/// The calls in each step of `session.run(batches, step)`.
CallCounts calls_of_steps(
    const std::function<void(MonitoredTrainingSession&, OneCallTraining&,
                             distribute::DistributedIterator<at::Tensor>&)>& run,
    bool on_cards) {
  const auto all = run_all({.on_cards = on_cards}, [&](Strategy& strategy) {
    OneCallTraining training(strategy);
    auto batches =
        strategy
            .distribute(input::from_tensor_slices(at::ones({12, 3}, at::kDouble)).batch(2),
                        {.auto_shard = distribute::AutoShardPolicy::kData})
            .iterator();
    MonitoredTrainingSession session(training.state, {},
                                     {.files = std::make_shared<io::MemoryFileSystem>()});
    CallCounts calls;
    while (!session.should_stop()) {
      const std::int64_t before = training.calls();
      run(session, training, batches);
      calls.push_back(training.calls() - before);
    }
    session.close();
    return calls;
  });
  EXPECT_EQ(all[0], all[1]);
  return all[0];
}

at::Tensor loss_of(const OneCallTraining& training, const at::Tensor& x) {
  return (training.model.local().weight * x).square().mean();
}

TEST(StopAgreement, AStepThatReturnsWhatMinimizeReturnedMakesOneCall) {
  for (const bool on_cards : {false, true}) {
    const CallCounts calls = calls_of_steps(
        [](auto& session, auto& training, auto& batches) {
          session.run(batches, [&](const at::Tensor& x) {
            return training.optimizer.minimize(loss_of(training, x));
          });
        },
        on_cards);
    EXPECT_EQ(calls, (CallCounts{3, 1, 1, 1, 1, 1, 0, 1})) << on_cards;
  }
}

TEST(StopAgreement, AStepThatReturnsATensorMakesACallForItsMean) {
  const CallCounts calls = calls_of_steps(
      [](auto& session, auto& training, auto& batches) {
        session.run(batches, [&](const at::Tensor& x) {
          const at::Tensor loss = loss_of(training, x);
          training.optimizer.minimize(loss);
          return loss.detach();
        });
      },
      /*on_cards=*/false);
  EXPECT_EQ(calls, (CallCounts{4, 2, 2, 2, 2, 2, 0, 1}));
}

TEST(StopAgreement, AFitStopsAfterTheEpochAtWhoseEndAWorkerIsCancelled) {
  const auto runs =
      fit_workers({.at_epoch_end = [](FitContext& fit, int worker, const auto& cancel) {
        if (worker == 1 && fit.epoch() == 1) cancel.cancel();
      }});
  for (const FitOfWorker& run : runs) EXPECT_EQ(run.steps, 8);
}

TEST(StopAgreement, AFitMakesOneMoreStepAfterABatchAtWhoseEndAWorkerIsCancelled) {
  for (const std::int64_t batch : {1, 2, 3}) {
    const auto runs =
        fit_workers({.at_batch_end = [&](FitContext& fit, int worker, const auto& cancel) {
          if (worker == 1 && fit.epoch() == 1 && fit.batches() == batch) cancel.cancel();
        }});
    for (const FitOfWorker& run : runs) EXPECT_EQ(run.steps, 4 + batch + 1);
  }
}

TEST(StopAgreement, ACallbackOfEveryWorkerStopsAFitAtOnce) {
  const auto runs = fit_workers({.at_batch_end = [](FitContext& fit, int, const auto&) {
    if (fit.epoch() == 1 && fit.batches() == 2) fit.stop("enough");
  }});
  for (const FitOfWorker& run : runs) EXPECT_EQ(run.steps, 6);
}

TEST(StopAgreement, ACallbackThatStopsAFitInOneWorkerIsAnErrorInAll) {
  const FitCase test{.at_batch_end = [](FitContext& fit, int worker, const auto&) {
    if (worker == 1 && fit.epoch() == 1 && fit.batches() == 2) fit.stop("enough");
  }};
  const auto errors = run_all({}, [&](Strategy& strategy) {
    const Error error = distribute::error_from([&] { fit_worker(strategy, test); });
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    return std::string(error.what());
  });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("rank 1 is before step 6"), std::string::npos) << error;
}

}  // namespace
}  // namespace brigade::train
