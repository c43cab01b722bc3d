#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace brigade::comm {

/// How a replica that is a micro-batch of a pipeline passes through the pipeline's stages.
/// Strategies that cut models into stages set it in each replica (`Replica::stages`); others leave
/// it null.
///
/// Replicas are numbered from 0 in each process.
///
/// Thread-safety: each replica from its own thread.
class StagePasses {
 public:
  virtual ~StagePasses() = default;

  /// A layer with this name begins with the input `x`. If a stage begins with it, waits for this
  /// micro-batch's forward pass there. Returns the input to continue with.
  virtual at::Tensor begin_layer(int replica, std::string_view name, const at::Tensor& x) = 0;
  /// A layer begins that open device scopes place on this device: a name, perhaps partial. If
  /// another stage is on that device, the micro-batch moves there as in `begin_layer`. Returns the
  /// input to continue with.
  virtual at::Tensor place_layer(int /*replica*/, std::string_view /*name*/,
                                 const std::string& /*device*/, const at::Tensor& x) {
    return x;
  }
  /// The model's layers are done, with this result. Returns the result to continue with.
  virtual at::Tensor end_layers(int /*replica*/, const at::Tensor& result) { return result; }
  /// The model's layers are done, with a result that is not one tensor. Throws kUnimplemented if
  /// the pipeline does not support that.
  virtual void end_layers_with_more(int /*replica*/) {}
  /// The backward pass of this loss is about to begin. Throws kUnimplemented if the pipeline does
  /// not support such a loss.
  virtual void check_loss(int /*replica*/, const at::Tensor& /*loss*/) {}
  /// The forward pass of a replica is done, and its backward pass begins: waits for it on the last
  /// stage.
  virtual void begin_backward(int replica) = 0;
  /// The tensors, besides variables, whose gradients the backward pass computes: what came from an
  /// earlier stage in another process.
  virtual std::vector<at::Tensor> backward_inputs(int /*replica*/) { return {}; }
  /// `gradients` of `variables`: makes those undefined that other processes train.
  virtual void keep_local_gradients(int /*replica*/, std::span<const at::Tensor> /*variables*/,
                                    std::span<at::Tensor> /*gradients*/) {}
  /// The gradients of `backward_inputs`, undefined where there is none, are ready to be sent.
  virtual void send_input_gradients(int /*replica*/, std::vector<at::Tensor> /*gradients*/) {}
  /// Whether the backward pass may defer work now that no other pass waits for, such as the
  /// gradient of a weight.
  virtual bool may_defer(int /*replica*/) { return false; }
  /// Queues work of the backward pass for any stage that is idle, whose thread calls it; only after
  /// `may_defer`.
  virtual void defer(int /*replica*/, std::function<void()> work) { work(); }
  /// The backward pass is done, and what it has deferred is needed: waits for it. Throws its error.
  virtual void complete_deferred(int /*replica*/) {}
  /// Calls `work(i)` for each i from 0 up to `count`, on this thread and on idle stages, and
  /// returns when all calls are done.
  virtual void parallel_for(int /*replica*/, int count, const std::function<void(int)>& work) {
    for (int i = 0; i < count; ++i) work(i);
  }
  /// The replica makes no more passes, and others need not wait for them. Deferred work that nobody
  /// has begun is dropped.
  virtual void end_backward(int replica) noexcept = 0;
};

/// Says that a layer of a model begins: call it in the model's forward pass before each layer at
/// which a pipeline may be cut, with the layer's input, and continue with what it returns.
///
///   at::Tensor forward(const at::Tensor& images) {
///     at::Tensor x = comm::begin_layer("conv1", images);
///     x = conv1(x).relu();
///     x = comm::begin_layer("conv2", x);
///     ...
///
/// Under a strategy without stages, and outside of replicas, it returns `x` and costs nothing.
/// `x` must carry everything that a later stage needs of an earlier one: a model with a second
/// connection (a residual unit) announces layers before and after it, not between its ends.
at::Tensor begin_layer(std::string_view name, const at::Tensor& x);

/// Whether the calling thread runs a micro-batch of a pipeline. Stages share their memory, so
/// device scopes choose stages there, and move no tensors.
bool has_stages();
/// As `begin_layer`, for a layer that the open device scopes place on `device`; called by layers
/// that device scopes place (`variables::place_layer`).
at::Tensor place_layer(std::string_view name, const std::string& device, const at::Tensor& x);

/// Says that the layers of a model are done: called by the handle of a model (`Replicated`) with
/// what its forward pass returned. If the last stage is in another process, returns that stage's
/// result.
at::Tensor end_layers(const at::Tensor& result);
/// The same for a result that is not one tensor.
void end_layers_with_more();

/// The backward pass of the calling replica, from the loss to the first stage: `StagePasses` for an
/// optimizer. Does nothing outside of pipelines.
class BackwardPasses {
 public:
  BackwardPasses();
  ~BackwardPasses();
  BackwardPasses(const BackwardPasses&) = delete;
  BackwardPasses& operator=(const BackwardPasses&) = delete;

  /// The forward pass is done, with this loss: waits for this micro-batch's backward pass on the
  /// last stage.
  void begin(const at::Tensor& loss) const;
  /// See StagePasses; nothing where there is none.
  std::vector<at::Tensor> inputs() const;
  void keep_local_gradients(std::span<const at::Tensor> variables,
                            std::span<at::Tensor> gradients) const;
  void send_input_gradients(std::vector<at::Tensor> gradients) const;
  /// See StagePasses; outside of pipelines nothing is deferred.
  bool may_defer() const;
  void defer(std::function<void()> work) const;
  void complete_deferred() const;

 private:
  StagePasses* stages_ = nullptr;
  int replica_ = 0;
};

/// Whether the calling thread is a micro-batch of a pipeline.
bool is_in_pipeline();

/// Calls `work(i)` for each i from 0 up to `count`: one after another or, in a pipeline, in
/// parallel on the calling thread and on idle stages. The calls must not depend on one another.
void parallel_for(int count, const std::function<void(int)>& work);

}  // namespace brigade::comm
