#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace brigade::data {

/// In place of a number of threads or of buffered elements: let Brigade choose. It chooses once,
/// from the cores this process may use: one map thread a core (16 at most), and as many buffered
/// elements as cores, but at least 2 and at most 8. The results never depend on the choice.
///
/// TensorFlow counterpart: tf.data.AUTOTUNE, which goes on adjusting while it runs.
inline constexpr std::int64_t kAutotune = -1;

/// The number of map threads meant by `parallelism`. Throws kInvalidArgument unless it is
/// `kAutotune` or in 1 ... 1024.
std::size_t threads_for(std::int64_t parallelism, std::string_view transform);

/// The number of prefetched elements meant by `count`. Throws kInvalidArgument unless it is
/// `kAutotune` or at least 1.
std::size_t depth_for(std::int64_t count, std::string_view transform);

}  // namespace brigade::data
