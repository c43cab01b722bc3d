#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/io/state_tree.h"
#include "brigade/optim/update_rule.h"
#include "brigade/ps/store/parameter.h"
#include "brigade/ps/store/update_record.h"

namespace brigade::ps {

/// A variable as the chief creates it.
struct Creation {
  std::string name;
  at::Tensor value;  ///< on the CPU
  bool is_trainable = true;
  /// Of its parameter group; unset: the rule's, and `ParameterStore::set_learning_rate`'s.
  std::optional<double> learning_rate = std::nullopt;
  std::optional<double> weight_decay = std::nullopt;

  Parameter::Settings settings() const {
    return {
        .is_trainable = is_trainable, .learning_rate = learning_rate, .weight_decay = weight_decay};
  }
};

/// What a server has after `create`.
struct ServerModel {
  optim::UpdateRulePtr rule;
  io::StateTree job;
  Parameters parameters;
};

/// Throws kInvalidArgument, naming the variable, for two of one name, a trainable one that is not
/// of floating point, a negative rate, and a value that a record of `max_record_bytes` cannot have.
void check_creation(std::span<const Creation> variables, std::uint64_t max_record_bytes);

/// Cuts a creation into the records of the log that make it: the last one makes it valid.
class CreationRecords {
 public:
  /// Borrows all of its arguments.
  CreationRecords(std::span<const Creation> variables, const optim::UpdateRule& rule,
                  const io::StateTree& job, std::uint64_t max_record_bytes);
  std::size_t size() const { return variable_parts_ + 1; }
  UpdateRecord record(std::size_t index) const;

 private:
  void add(const Creation& variable, UpdateRecord& record) const;

  std::span<const Creation> variables_;
  const optim::UpdateRule& rule_;
  const io::StateTree& job_;
  std::vector<std::size_t> ends_;   // of the parts
  std::size_t variable_parts_ = 0;  // records before the last one
};

/// Makes a model of its records.
///
/// Thread-safety: one thread.
class ModelCreation {
 public:
  /// Takes the next record. Returns the model with the last one. A first record drops what a
  /// creation that a crash cut short left. Throws kDataLoss for records that do not follow one
  /// another, kInvalidArgument for an unknown rule.
  std::optional<ServerModel> add(const UpdateRecord& record);

 private:
  struct Variable {
    std::string name;
    at::Tensor value;
    Parameter::Settings settings;
  };
  void add_variables(const UpdateRecord& record);

  std::int64_t parts_ = 0;
  std::vector<Variable> variables_;
};

}  // namespace brigade::ps
