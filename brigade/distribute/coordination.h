#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/io/state_tree.h"

namespace brigade::distribute {

/// The arguments, or the result, of a function that workers run for the chief.
///
/// Thread-safety: a value; copies share the tensors' memory.
struct RemoteData {
  struct NamedTensor {
    std::string name;
    at::Tensor tensor;
  };
  io::StateTree values = {};  ///< without arrays: these are tensors
  std::vector<NamedTensor> tensors = {};
};

/// A function that a worker offers to the chief.
struct RemoteFunction {
  std::string name;
  std::function<RemoteData(const RemoteData& arguments)> run;
};

/// A phase in the chief: schedules functions, which the workers run as they become free. If it is
/// destroyed before `end`, its functions are cancelled, and it has failed.
///
/// Thread-safety: one thread.
class CoordinatedPhase {
 public:
  virtual ~CoordinatedPhase() = default;

  /// May wait until earlier functions were taken by workers. Throws the error of a function that
  /// has failed, which cancels all others; kCancelled.
  virtual void schedule(const std::string& function, const RemoteData& arguments) = 0;
  /// How many functions were scheduled whose results `next_result` has not returned.
  virtual std::size_t unfinished() const = 0;
  /// The result of any of these, each once; also if its worker was lost and another one has run the
  /// function again. Unset after `timeout`, and if there is none. Throws as `schedule`.
  virtual std::optional<RemoteData> next_result(std::chrono::milliseconds timeout) = 0;
  /// Forgets these: those that wait for a worker are not run. Waits until those that run have
  /// ended. Throws kCancelled.
  virtual void drop() = 0;
  /// Ends the phase, with this outcome (without arrays) for all workers.
  virtual void end(const io::StateTree& outcome) = 0;
};

/// A strategy whose chief trains nothing, but directs the other workers (`Strategy::coordination`).
/// All are processes of one program, which is divided into phases: parts in which the workers run
/// functions for the chief. They make the same phases in the same order, so that each worker knows
/// the functions of a phase. A worker that joins later gets the outcomes of the phases that it has
/// missed. `train::Model` makes a phase of each `fit` and `evaluate`.
///
/// Thread-safety: one thread.
class Coordination {
 public:
  virtual ~Coordination() = default;

  /// Whether this process is the chief.
  virtual bool is_coordinator() const = 0;
  /// How many tasks run functions, whether they are there or not.
  virtual int num_workers() const = 0;

  /// In the chief, the next phase. Throws kFailedPrecondition in a worker, and while one exists.
  virtual std::unique_ptr<CoordinatedPhase> begin_phase() = 0;

  /// In a worker, the next phase: runs these functions when the chief wants them, on this thread,
  /// until the phase has ended, and returns its outcome. Unset: the chief has ended before. Throws
  /// kFailedPrecondition in the chief; kAborted if the phase has failed there, and if the chief was
  /// started again and repeats earlier phases; kUnavailable if it cannot be reached; kCancelled.
  virtual std::optional<io::StateTree> serve_phase(
      const std::vector<RemoteFunction>& functions) = 0;
};

}  // namespace brigade::distribute
