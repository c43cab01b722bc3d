#pragma once

#include <c10/core/DispatchKey.h>

namespace brigade::device {

/// The dispatch key that `RandomScope` includes in its thread. libtorch leaves this one to code
/// outside of itself and has no kernel for it. It stands above autograd, so that the generator is
/// chosen before anything looks at the arguments.
inline constexpr c10::DispatchKey kRandomKey = c10::DispatchKey::DeferredInit;

/// Enters kernels under `kRandomKey` for all operations that draw; every other operation passes the
/// key by, at no cost. Takes milliseconds the first time and does nothing afterwards. An internal
/// of `ReplicaGenerator`.
///
/// Thread-safety: callable from any thread, but no other thread should be running tensor operations
/// the first time.
void install_random_substitution();

}  // namespace brigade::device
