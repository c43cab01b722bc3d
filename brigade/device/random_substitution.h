#pragma once

#include <c10/core/DispatchKey.h>

namespace brigade::device {

/// The dispatch key that `RandomScope` includes in its thread. libtorch reserves it for external
/// code and has no kernel for it. It has priority over autograd, so that the generator is chosen
/// before anything uses the arguments.
inline constexpr c10::DispatchKey kRandomKey = c10::DispatchKey::DeferredInit;

/// Registers kernels under `kRandomKey` for all random operations; other operations ignore the key
/// at no cost. Takes milliseconds the first time and does nothing afterwards. Internal to
/// `ReplicaGenerator`.
///
/// Thread-safety: callable from any thread, but no other thread should be running tensor operations
/// the first time.
void install_random_substitution();

}  // namespace brigade::device
