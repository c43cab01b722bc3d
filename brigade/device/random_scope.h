#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "brigade/base/ambient.h"
#include "brigade/device/replica_generator.h"

namespace brigade::device {

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

}  // namespace brigade::device
