#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "brigade/base/ambient.h"

namespace brigade::device {

/// The random numbers of one replica: one stream for each (root seed, replica, step). Dropout masks
/// therefore differ between replicas and steps, repeat from run to run, and are the same after a
/// resume without anything having been saved.
///
/// libtorch has one default CPU generator per process; replicas that run as threads would race for
/// it. A replica's thread opens a `RandomScope` instead, in which every random operation draws from
/// here.
///
/// Thread-safety: used by one thread at a time, its replica's. Construct the first one of a process
/// before other threads run tensor operations: it registers `RandomScope`'s substitution with
/// libtorch's dispatcher.
class ReplicaGenerator {
 public:
  /// Until the first `begin_step` a separate stream is used, for random numbers while a model is
  /// built.
  ReplicaGenerator(std::uint64_t root_seed, std::uint64_t replica);
  ReplicaGenerator(const ReplicaGenerator&) = delete;
  ReplicaGenerator& operator=(const ReplicaGenerator&) = delete;

  /// From now on draws come from the stream of `step`, from its beginning. The generator is seeded
  /// at the first draw, so a step without draws has no cost. After the step, draws continue in its
  /// stream until the next `begin_step`.
  void begin_step(std::uint64_t step);

  /// The generator for tensors on `device`, ready to draw from; an undefined one for devices other
  /// than CPU, CUDA, and GPUs that a program adds to libtorch (PrivateUse1).
  at::Generator generator(c10::Device device);

  /// A separate generator that continues where this one is: it draws the numbers that this one will
  /// draw next. Neither changes the other. Draws nothing itself.
  std::unique_ptr<ReplicaGenerator> fork() const;
  /// The same of libtorch's default generators, of the CPU and of each GPU that is in use; for code
  /// outside of replicas.
  static std::unique_ptr<ReplicaGenerator> fork_default();
  /// Where the CPU's stream of this step is, as bytes, to continue it in another process; undefined
  /// if nothing was drawn in this step.
  at::Tensor state() const;
  /// Continues a stream of this step from there; undefined: from its beginning. Throws
  /// kInvalidArgument for bytes that are no state.
  void set_state(const at::Tensor& state);
  /// Whether a ReplayScope draws from it.
  bool is_replay() const { return is_replay_; }

 private:
  struct Source {
    c10::Device device;
    at::Generator generator;
    std::uint64_t seeded_for;  // the value of step_count_ for which it was seeded
  };
  friend class ReplayScope;
  std::uint64_t seed() const;
  Source& source(c10::Device device);

  std::uint64_t root_seed_;
  std::uint64_t replica_;
  std::optional<std::uint64_t> step_;
  std::uint64_t step_count_ = 1;  // counts the calls of begin_step
  std::vector<Source> sources_;
  bool is_replay_ = false;
};

/// The generator of the calling thread; null outside of every `RandomScope`.
inline constexpr base::AmbientSlot<ReplicaGenerator> kGeneratorSlot{base::AmbientIndex::kGenerator};

/// During its lifetime, the calling thread's random operations (dropout, `randn`, `bernoulli_`,
/// `randperm`, ...) draw from a replica's generator instead of libtorch's default one, which stays
/// untouched. An explicit generator argument is honored. `at::manual_seed` has no effect inside: it
/// seeds the default generators. Other operations are not affected: the substitution is registered
/// for random operations only.
///
/// Where an `at::ThreadLocalStateGuard` is installed too, install it first: it replaces the
/// thread's dispatch keys. Not covered: on CUDA, the dropout inside cuDNN's recurrent layers and
/// inside fused attention draws from the default CUDA generator. (The CUDA paths have been built
/// but not run so far.)
///
/// Thread-safety: open and close it on the same thread, inner scopes first. An inner scope
/// overrides the outer one.
class RandomScope {
 public:
  explicit RandomScope(ReplicaGenerator& generator);

 private:
  base::AmbientScope<ReplicaGenerator> scope_;
  c10::impl::IncludeDispatchKeyGuard key_;
};

/// A RandomScope for computing a part of a forward pass a second time (`layers::recompute`): random
/// operations draw from a fork, and libtorch's batch norm (`at::batch_norm`, `nn::BatchNorm2d`)
/// leaves its running mean and variance as they are, because the first time moved them already.
///
/// Thread-safety: as RandomScope.
class ReplayScope {
 public:
  explicit ReplayScope(std::unique_ptr<ReplicaGenerator> fork);

 private:
  const std::unique_ptr<ReplicaGenerator> generator_;
  const RandomScope random_;
};

}  // namespace brigade::device
