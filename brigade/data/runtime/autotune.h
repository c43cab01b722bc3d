#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace brigade::data {

/// Instead of a number of threads or of buffered elements: Brigade chooses the number, and adjusts
/// it while the iterator runs (`propose` in tuning.h has the rule, `Tuning` the budget). It starts
/// with one map thread per core (at most 16), and as many buffered elements as cores, but at least
/// 2 and at most 8. The results never depend on it.
///
/// TensorFlow counterpart: tf.data.AUTOTUNE.
inline constexpr std::int64_t kAutotune = -1;

/// The number of map threads meant by `parallelism`. Throws kInvalidArgument unless it is
/// `kAutotune` or in 1 ... 1024.
std::size_t threads_for(std::int64_t parallelism, std::string_view transform);

/// The number of prefetched elements meant by `count`, at most 65536. Throws kInvalidArgument
/// unless it is `kAutotune` or at least 1.
std::size_t depth_for(std::int64_t count, std::string_view transform);

/// The limits of `kAutotune` for the threads of one step, and for the chunks in its buffer.
std::size_t max_tuned_threads();
/// The limit of threads on trial, which are removed again if they do not help (`Tuner`).
std::size_t max_trial_threads();
inline constexpr std::size_t kMaxTunedDepth = 64;

/// The cores that this process may use, and the bytes of memory that the machine has.
std::size_t usable_cores();
std::uint64_t machine_memory();

}  // namespace brigade::data
