#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/coordination/push_ledger.h"
#include "brigade/coordination/step_decider.h"
#include "brigade/ps/client/model_creation.h"
#include "brigade/ps/store/parameter.h"
#include "brigade/ps/store/row_gradient.h"
#include "brigade/ps/store/store_state.h"
#include "brigade/ps/store/update_record.h"

namespace brigade::ps {

// The records of a server's log but creations', one function for each kind (docs/formats.md,
// "Updates").

UpdateRecord push_record(const coordination::PushId& id,
                         std::span<const checkpoint::NamedTensor> gradients,
                         std::span<const RowGradient> rows = {});
UpdateRecord offer_record(const coordination::PushId& id, std::int64_t step, int index,
                          std::span<const checkpoint::NamedTensor> gradients,
                          std::span<const RowGradient> rows = {});

/// The gradients of a `push_record`, without the divisor of its learning rate, or of an
/// `offer_record`. They share its tensors, which are contiguous.
struct RecordedGradients {
  std::vector<checkpoint::NamedTensor> dense;
  std::vector<RowGradient> rows;
};
/// Throws kDataLoss if the record has fewer tensors than its gradients of rows need.
RecordedGradients recorded_gradients(const UpdateRecord& record);

UpdateRecord decision_record(const coordination::StepDecision& decision);
UpdateRecord learning_rate_record(double rate);
UpdateRecord admit_record(int worker, std::int64_t incarnation);
UpdateRecord finish_record(int worker, std::int64_t incarnation);
UpdateRecord ready_record();
/// `step` only with the last record of an assignment.
UpdateRecord assign_record(std::span<const NamedState> variables, std::optional<std::int64_t> step);
/// The variables of an `assign_record`; missing slots are missing. Throws kDataLoss if tensors are.
std::vector<NamedState> assigned_states(const UpdateRecord& record);

/// Makes the changes again that an earlier run put into the log.
///
/// Thread-safety: one thread, which owns state and parameters meanwhile.
class LogReplay {
 public:
  LogReplay(StoreState& state, Parameters& parameters) : state_(state), parameters_(parameters) {}
  /// Throws kUnimplemented for a record of a kind that this version does not know, kDataLoss for
  /// one that does not fit the changes before it.
  void apply(const UpdateRecord& record);

 private:
  Parameter& parameter(const std::string& name) const;
  void create(const UpdateRecord& record);
  void assign(const UpdateRecord& record);
  void push(UpdateRecord record);
  void offer(const UpdateRecord& record);
  void decide(const UpdateRecord& record);
  void update(const std::string& name, const VariableGradient& gradient, double learning_rate,
              std::int64_t divisor = 1) const;

  StoreState& state_;
  Parameters& parameters_;
  ModelCreation creation_;
};

}  // namespace brigade::ps
