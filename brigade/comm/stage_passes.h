#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace brigade::comm {

/// How a replica that is a micro-batch of a pipeline passes through the pipeline's stages.
/// Installed in each replica by a strategy that cuts models into stages (`Replica::stages`); absent
/// in others.
///
/// Replicas are counted from 0 in each process.
///
/// Thread-safety: each replica from its own thread.
class StagePasses {
 public:
  virtual ~StagePasses() = default;

  /// A layer with this name begins with the input `x`. If a stage begins with it, waits until it is
  /// this micro-batch's part there. Returns the input with which to continue.
  virtual at::Tensor begin_layer(int replica, std::string_view name, const at::Tensor& x) = 0;
  /// A layer begins that open device scopes place on this device: a name, perhaps partial. If
  /// another stage is on that device, the micro-batch moves there as in `begin_layer`. Returns the
  /// input with which to continue.
  virtual at::Tensor place_layer(int /*replica*/, std::string_view /*name*/,
                                 const std::string& /*device*/, const at::Tensor& x) {
    return x;
  }
  /// The model's layers are done, with this result. Returns the result with which to go on.
  virtual at::Tensor end_layers(int /*replica*/, const at::Tensor& result) { return result; }
  /// The model's layers are done, with a result that is not one tensor. Throws kUnimplemented if
  /// that cannot be.
  virtual void end_layers_with_more(int /*replica*/) {}
  /// The backward pass of this loss is about to begin. Throws kUnimplemented if it cannot be.
  virtual void check_loss(int /*replica*/, const at::Tensor& /*loss*/) {}
  /// The forward pass of a replica is done, and its backward pass begins.
  virtual void begin_backward(int replica) = 0;
  /// The tensors by which the backward pass also computes the gradient of the loss: what came from
  /// an earlier stage in another process.
  virtual std::vector<at::Tensor> backward_inputs(int /*replica*/) { return {}; }
  /// The gradients by `variables`, of which those that other processes train become undefined.
  virtual void divide_gradients(int /*replica*/, std::span<const at::Tensor> /*variables*/,
                                std::span<at::Tensor> /*gradients*/) {}
  /// The gradients by `backward_inputs`, undefined where there is none.
  virtual void take_gradients(int /*replica*/, std::vector<at::Tensor> /*gradients*/) {}
  /// Whether the backward pass may leave work for later now, such as the gradient of a weight,
  /// which no other pass waits for.
  virtual bool may_defer(int /*replica*/) { return false; }
  /// Leaves work of the backward pass to any stage that has nothing to compute; only after
  /// `may_defer`. Called from another thread.
  virtual void defer(int /*replica*/, std::function<void()> work) { work(); }
  /// The backward pass is done, and what it has left is needed: waits for it. Throws its error.
  virtual void complete_deferred(int /*replica*/) {}
  /// Calls `work(i)` for each i from 0 up to `count`, and returns when all are done. Stages that
  /// have nothing to compute help.
  virtual void share(int /*replica*/, int count, const std::function<void(int)>& work) {
    for (int i = 0; i < count; ++i) work(i);
  }
  /// The replica's passes are done, and others need not wait for them. What it has left for later
  /// and nobody has begun is dropped.
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
/// Everything that a later stage needs of an earlier one goes through `x`, so layers with a second
/// connection past the cut (residual units) are cut before or after it.
at::Tensor begin_layer(std::string_view name, const at::Tensor& x);

/// Whether the calling thread runs a micro-batch of a pipeline, whose stages share their memory: so
/// device scopes choose stages, and move no tensors.
bool has_stages();
/// The same for a layer that the open device scopes place on `device`; called by layers that device
/// scopes place (`variables::place_layer`).
at::Tensor place_layer(std::string_view name, const std::string& device, const at::Tensor& x);

/// Says that the layers of a model are done: called by the handle of a model (`Replicated`) with
/// what its forward pass returned. Where the last stage is in another process, the result is that
/// of the last stage.
at::Tensor end_layers(const at::Tensor& result);
/// The same for a result that is not one tensor.
void end_layers_with_more();

/// The backward pass of the calling replica, from the loss to the first stage. Does nothing outside
/// of pipelines.
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
  void divide_gradients(std::span<const at::Tensor> variables,
                        std::span<at::Tensor> gradients) const;
  void take_gradients(std::vector<at::Tensor> gradients) const;
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

/// Calls `work(i)` for each i from 0 up to `count`: one after another, or, in a pipeline, together
/// with stages that have nothing to compute. The calls must not depend on one another.
void share_work(int count, const std::function<void(int)>& work);

}  // namespace brigade::comm
