#pragma once

#include <string>
#include <vector>

namespace brigade::command {

/// One thing that a training may need of the machine or of this build.
struct MachineCheck {
  std::string name;  ///< "NCCL"
  bool is_good = true;
  std::string found;        ///< What is there.
  std::string advice = {};  ///< If it is not good: what it is for and how to get it.
  /// Trainings fail without it, whatever they do; otherwise only some need it.
  bool is_problem = false;
};

/// Checks GPUs, NCCL, MPI, TensorBoard, shared memory and the limits of processes. Takes
/// milliseconds.
std::vector<MachineCheck> check_machine(int gpu_cards);

}  // namespace brigade::command
