#pragma once

#include <cstdint>
#include <string_view>

#include "brigade/optim/schedule.h"

namespace brigade::optim {

/// Falls along half a cosine from the initial rate to `alpha` times it, and stays there (Loshchilov
/// and Hutter, 2016). Keras's warmup_target and warmup_steps: put a `WarmUp` in front.
struct CosineDecay {
  static constexpr std::string_view kName = "cosine_decay";
  double initial_learning_rate = 0.0;
  std::int64_t decay_steps = 0;
  double alpha = 0.0;
  /// Throws kInvalidArgument naming the field and the values allowed.
  SchedulePtr schedule() const;
  static SchedulePtr from(const io::StateTree& config);
};

/// Cosine decays one behind another, each `t_mul` times as long as the one before and beginning at
/// `m_mul` times its rate. Where Keras finds the decay by a logarithm, whose rounding may begin one
/// step late, here restarts fall on their step exactly.
struct CosineDecayRestarts {
  static constexpr std::string_view kName = "cosine_decay_restarts";
  double initial_learning_rate = 0.0;
  std::int64_t first_decay_steps = 0;
  double t_mul = 2.0;  ///< at least 1: shorter and shorter decays would come to an end
  double m_mul = 1.0;
  double alpha = 0.0;
  /// Throws kInvalidArgument naming the field and the values allowed.
  SchedulePtr schedule() const;
  static SchedulePtr from(const io::StateTree& config);
};

}  // namespace brigade::optim
