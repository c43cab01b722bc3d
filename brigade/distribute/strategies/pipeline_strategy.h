#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/concurrency/pipeline_schedule.h"
#include "brigade/concurrency/stage_timeline.h"
#include "brigade/device/device.h"
#include "brigade/device/placement.h"
#include "brigade/distribute/pipeline/stage_sequence.h"
#include "brigade/distribute/strategies/pipeline_cut.h"
#include "brigade/distribute/strategy.h"
#include "brigade/rpc/rendezvous.h"

namespace brigade::concurrency {
class StageSlots;
}

namespace brigade::distribute {

class AutomaticPipeline;
class IdleStages;
struct PipelineWorkers;
struct StageChannels;
using concurrency::PipelineSchedule;

/// When a pipeline computes the gradients of weights. Results do not depend on it.
enum class WeightGradients {
  /// In the backward pass of their stage, as autograd does.
  kInBackward,
  /// The backward pass of a layer computes the gradient of its input, which the previous stage
  /// waits for, and defers the gradient of its weight to any stage that is idle. All stages compute
  /// what is left after the last pass. So stages wait less, and fast ones help slow ones. A stage
  /// keeps the activations of at most two micro-batches more for it. For convolutions and dense
  /// products of `brigade/layers`, which the library's models use; layers of torch::nn, weights
  /// that are used twice or have hooks, and pipelines over several workers compute all in backward.
  /// Qi et al. 2023, "Zero Bubble Pipeline Parallelism" (where each stage computes its own).
  kWhenIdle
};

/// Options of PipelineStrategy.
struct PipelineStrategyOptions {
  /// The devices of the stages, in their order: logical CPUs, in TensorFlow's or libtorch's
  /// spelling. Empty: a CPU for each stage. With several workers, the devices of this worker's
  /// stages, equally many in each worker; empty, with an automatic cut and without `stages`: one.
  std::vector<std::string> devices = {};
  /// The number of stages of a pipeline. 0: one for each device of its workers, or one more than
  /// `cut` names. An automatic cut in one process needs it, or `devices`.
  int stages = 0;
  /// With several workers, how many pipelines train side by side: of W workers, the first W /
  /// replicas have the stages of the first one, and so on. Each computes a contiguous block of the
  /// micro-batches.
  int replicas = 1;
  /// Where the model is cut: the names of the layers with which the stages after the first begin,
  /// in the order of the model; as many as devices, less one. They are the names that the model
  /// announces by `begin_layer`: those of `LayerSequence`, of `models::Sequential`
  /// (`Sequential::names`), of the library's models, or your own. Empty: one stage, or the model
  /// says where its stages begin: it was made by `PipelineStrategy::stages`, or device scopes are
  /// open around its layers. Or `AutomaticCut{}`: the pipeline measures the layers in its first
  /// steps, and chooses.
  PipelineCut cut = {};
  /// Into how many micro-batches a batch is split, over all pipelines. With p stages and m
  /// micro-batches per pipeline, stages wait for one another for (p - 1) / (m + p - 1) of a step.
  /// It is the job's number of logical replicas. 0: four for each stage of each pipeline.
  int micro_batches = 0;
  /// The order of the stages' passes. The same results, to the bit.
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  /// When gradients of weights are computed. The same results, to the bit.
  WeightGradients weight_gradients = WeightGradients::kWhenIdle;
  /// With kInterleaved, how many stages each device has, at least 2: stage s is on device
  /// s % devices, counting those of all workers of the pipeline, and `cut` names a layer for each
  /// stage but the first. With other schedules 1.
  int chunks_per_device = 1;
  /// The number of threads of one tensor operation of a micro-batch.
  int threads_per_replica = 1;
  /// Whether CPUs may have more threads, or higher numbers, than there are cores for.
  bool allow_oversubscription = false;
  /// The seed of all randomness of the job.
  std::uint64_t seed = 0;
  /// What happens if a device scope names a device that does not exist; the placement log.
  device::PlacementOptions placement = {};
  /// A step fails, naming what is missing, if a micro-batch waits longer than this for a stage, or
  /// in a collective.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// With several workers: how they exchange tensors, in full precision. (`bytes_per_pack` and
  /// `wire` have no effect.)
  comm::CommunicationOptions communication = {};
  /// With several workers: how long to wait for the others at the start, when a worker counts as
  /// lost, the cluster's key.
  rpc::JoinOptions join = {};
};

/// Cuts a model into stages, each on its own device, and sends the micro-batches of a batch through
/// them one after another: while the second stage computes the first micro-batch, the first stage
/// computes the second. Choose it for a model that is too deep for one device, or that cannot use
/// larger batches; with large batches MirroredStrategy is faster, since no device waits for a pass.
/// PyTorch: torch.distributed.pipelining. Huang et al. 2019, "GPipe".
///
///   PipelineStrategy pipe({.devices = {"cpu:0", "cpu:1"}, .cut = {"dense1"}, .micro_batches = 8});
///   auto model = pipe.create([] {
///     auto net = std::make_shared<layers::LayerSequence>();
///     net->push_back("conv", torch::nn::Conv2d(1, 8, 3));
///     ...
///     return net;
///   });
///
/// A micro-batch is a logical replica, with separate random numbers, batch statistics, examples and
/// gradients. So a training has the bits of a OneDeviceStrategy with
/// `logical_replicas = micro_batches`, and each continues the other's checkpoints. Variables exist
/// once, and are updated once a step.
///
/// The model announces its layers (`comm::begin_layer`). The first step throws kInvalidArgument,
/// naming the nearest layer, if the model has no layer of the cut, and with an automatic cut if it
/// has fewer layers than there are stages. Without a cut, models made by `stages` have a module for
/// each stage, and in functions of layers (Slim) device scopes choose the stages: layers in
/// `with_device("cpu:1")` are computed by the stage on that device, those outside of scopes by the
/// stage of the layer before. With several workers a scope names the task:
/// "/job:worker/task:1". The first step throws kInvalidArgument, naming the layer and the stages'
/// devices, for a device on which no stage is, and for scopes that are not in the order of the
/// stages; so does a scope in a pipeline with a cut.
///
/// Statistics that micro-batches exchange within a step (synchronized batch norm) work, but the
/// schedule is abandoned: stages then keep the activations of all micro-batches
/// (`concurrency::StageSlots`).
///
/// With several workers (`brigade launch`, `TF_CONFIG`; see cluster::resolve_cluster) each computes
/// the same number of consecutive stages, and only activations, their gradients and the model's
/// results are sent, point to point. Every worker runs the same program on the same data; a model
/// called by its handle returns the last stage's result in all of them. A worker updates the
/// variables of its stages only, and gets the other values when a training is saved
/// (`Strategy::fetch_state`). If a worker is lost, the others throw kUnavailable, naming it, and
/// the job resumes from the last checkpoint with the same bits. Not supported with several workers,
/// and refused with kUnimplemented: a second pass or backward pass in a step, results that are not
/// one tensor, a stage that begins within `layers::recompute`, penalties of weights that stages of
/// two workers use. With kInterleaved the stages of the workers alternate, device by device, and
/// weights that several stages use are refused as well.
///
/// A weight that stages of two workers use is trained by the first of them, which sends the new
/// value to the others after each update. So does every worker with variables that the loss
/// penalizes. The bits are those of one process.
///
/// With `replicas` R the workers are R pipelines side by side, each with its part of every batch.
/// Those with the same stages reduce their gradients by the tree of all micro-batches, so the bits
/// depend neither on the number of stages nor on that of pipelines. Choose it if there are more
/// workers than the model has balanced stages, or than the micro-batches of a batch keep busy.
///
/// Stages on GPUs are not supported: they are refused with kUnimplemented.
///
/// Thread-safety: see Strategy.
class PipelineStrategy : public Strategy {
 public:
  /// Throws as `device::resolve_devices`, kInvalidArgument for a cut that does not fit the devices,
  /// names a layer twice, an automatic cut without devices or steps, several pipelines in one
  /// process, or fewer micro-batches than 0 or than pipelines, and kUnimplemented for GPUs.
  explicit PipelineStrategy(PipelineStrategyOptions options);
  /// The stages are divided among the workers of a cluster, which is joined. Throws also what
  /// rpc::join throws, kFailedPrecondition, naming both workers, if they disagree, and
  /// kInvalidArgument, naming both numbers, for workers that cannot be so many pipelines.
  PipelineStrategy(const cluster::ClusterConfig& cluster, PipelineStrategyOptions options);
  /// The same for a membership that has been joined. With one member, this process has all stages.
  PipelineStrategy(std::shared_ptr<cluster::Membership> membership,
                   PipelineStrategyOptions options);

  /// Creates a model that has a module for each stage: each call of `makers[s]` returns a
  /// std::shared_ptr to a new module, stage s, which takes the result of the one before. All but
  /// the last take and return one tensor. No cut may be given.
  ///
  ///   auto model = pipe.stages([] { return std::make_shared<Front>(); },
  ///                            [] { return std::make_shared<Back>(); });
  ///
  /// The variables of stage s are called "s.weight" and so on, as those of a torch::nn::Sequential,
  /// or a layers::LayerSequence, of the same modules: other strategies with such a module continue
  /// this pipeline's checkpoints, and the reverse. Throws kInvalidArgument, naming both numbers,
  /// for more or fewer modules than stages, and for a pipeline with a cut; and as `create`.
  template <ModelMaker... Makers>
  auto stages(Makers... makers) {
    return stages(CreateOptions(), std::move(makers)...);
  }
  template <ModelMaker... Makers>
  auto stages(const CreateOptions& options, Makers... makers) {
    static_assert((ModulePointer<std::invoke_result_t<Makers&>> && ...),
                  "PipelineStrategy::stages takes functions, one a stage, each of which returns a "
                  "std::shared_ptr to a new module.");
    check_modules(sizeof...(Makers));
    using Sequence = StageSequence<typename std::invoke_result_t<Makers&>::element_type...>;
    // In braces: the modules are made from the first to the last.
    return create(options, [... makers = std::move(makers)]() mutable {
      return std::shared_ptr<Sequence>(new Sequence{makers()...});
    });
  }

  /// The names of the layers with which the stages after the first begin. Empty if the model says
  /// where they begin, until an automatic cut is chosen, and with one stage. Outside of `run`.
  std::vector<std::string> cut() const;
  /// The costs by which an automatic cut was chosen, and the predicted step. Unset before it is
  /// chosen, and with a given cut. With several workers it is chosen when the step after the
  /// measured ones begins, and only the first worker knows costs. Outside of `run`.
  const std::optional<ChosenCut>& chosen_cut() const;
  /// The number of stages of a pipeline, over all its workers.
  int num_stages() const { return num_stages_; }
  /// The number of pipelines side by side.
  int num_pipelines() const { return num_pipelines_; }
  /// [stage of this worker]: its device. (`devices` has an entry for each micro-batch.)
  const std::vector<device::Device>& stage_devices() const { return stage_devices_; }
  /// [device]: the passes of the last step in the order in which they began, without deferred work;
  /// none in steps that measure the layers for an automatic cut. Outside of `run`.
  concurrency::StageOrders passes() const;
  /// What each stage computed in the last step, and when, as measured; `text()` shows it, and
  /// `train::trace_events` makes a Chrome trace of it. Outside of `run`.
  concurrency::StageTimeline timeline() const;
  std::optional<concurrency::StageTimeline> stage_timeline() const override { return timeline(); }
  /// [device]: the most micro-batches of the last step whose activations the device kept at a time,
  /// counted once for each of its stages. With k1F1B it is at most the number of stages from this
  /// one to the last, and two more with `WeightGradients::kWhenIdle`. Outside of `run`.
  std::vector<int> peak_micro_batches() const;
  /// With several workers: the bytes that this one has sent so far to those of the previous and
  /// next stages: activations, gradients, results and their headers, without the transport's
  /// framing.
  std::int64_t bytes_sent() const;
  /// With several pipelines: the bytes that this worker has sent so far to those with the same
  /// stages of the others: sums of gradients, and other values that replicas reduce.
  std::int64_t reduction_bytes_sent() const;

 private:
  struct Built;
  explicit PipelineStrategy(Built built);
  void check_modules(std::size_t modules) const;

  const std::vector<device::Device> stage_devices_;
  const int num_stages_;
  const int num_pipelines_;
  const std::vector<std::string> given_cut_;
  const std::shared_ptr<AutomaticPipeline> automatic_;  // null: the cut was given
  const std::shared_ptr<const concurrency::StageSlots> slots_;
  const std::shared_ptr<const StageChannels> channels_;  // null: this process has all stages
  const std::shared_ptr<const IdleStages> idle_;         // null: nothing is deferred
};

}  // namespace brigade::distribute
