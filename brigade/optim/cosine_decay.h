#pragma once

#include <cstdint>
#include <string_view>

#include "brigade/optim/schedule.h"

namespace brigade::optim {

/// Decays along half a cosine from the initial rate to `alpha` times it, and stays there
/// (Loshchilov and Hutter, 2016). Keras's warmup_target and warmup_steps: put a `WarmUp` in front.
struct CosineDecay {
  static constexpr std::string_view kName = "cosine_decay";
  double initial_learning_rate = 0.0;
  std::int64_t decay_steps = 0;
  double alpha = 0.0;
  /// Throws kInvalidArgument naming the field and the values allowed.
  SchedulePtr schedule() const;
  static SchedulePtr from(const io::StateTree& config);
};

/// A sequence of cosine decays, each `t_mul` times as long as the previous one and starting at
/// `m_mul` times its rate. Keras computes the current decay with a logarithm, whose rounding may
/// delay a restart by one step; here restarts are exact.
struct CosineDecayRestarts {
  static constexpr std::string_view kName = "cosine_decay_restarts";
  double initial_learning_rate = 0.0;
  std::int64_t first_decay_steps = 0;
  double t_mul = 2.0;  ///< at least 1: with shorter and shorter decays the sequence would end
  double m_mul = 1.0;
  double alpha = 0.0;
  /// Throws kInvalidArgument naming the field and the values allowed.
  SchedulePtr schedule() const;
  static SchedulePtr from(const io::StateTree& config);
};

}  // namespace brigade::optim
