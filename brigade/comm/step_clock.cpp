#include "brigade/comm/step_clock.h"

namespace brigade::comm {

std::string_view to_string(StepPhase phase) {
  switch (phase) {
    case StepPhase::kInput:
      return "input";
    case StepPhase::kCompute:
      return "compute";
    case StepPhase::kWait:
      return "wait";
    case StepPhase::kCommunication:
      return "communication";
    case StepPhase::kUpdate:
      return "update";
  }
  return "unknown";
}

}  // namespace brigade::comm
