#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/io/state_tree.h"
#include "brigade/optim/device_counters.h"
#include "brigade/optim/parameter_group.h"
#include "brigade/optim/update_rule.h"
#include "brigade/variables/variable.h"

namespace brigade::optim {

/// The state of an optimizer in a checkpoint. It does not depend on the variables' devices, the
/// number of replicas or the storage layout.
struct SavedOptimizer {
  /// `<optimizer>/<slot>/<variable>`, in the variable's shape: "adam/exp_avg/conv1/weights". Those
  /// of all partitions of a variable are one, under its name.
  std::map<std::string, at::Tensor> slots;
  /// The rule's configuration, the learning rate, and the number of updates of each variable.
  io::StateTree state;
};

/// What to do with a variable without saved state.
enum class MissingSlots {
  kRefuse,  ///< Throws kNotFound that names it.
  kSkip,    ///< Leaves its slots and its step unchanged.
};

/// Adjacent variables that are updated with the same arguments: one range of flat storage, one call
/// of the rule. A single variable, if the rule needs whole variables.
struct UpdateRun {
  std::size_t storage = 0;  ///< index into OptimizerState::storages()
  std::int64_t begin = 0;   ///< first element in the storage
  std::int64_t end = 0;     ///< one past the last
  std::size_t first = 0;    ///< index of the first variable
  std::size_t last = 0;     ///< one past the last
  std::int64_t step = 1;    ///< the number of the next update
  Hyperparameters hyperparameters;
};

/// An update that was captured instead of being made. Each replay makes it.
struct CapturedUpdate {
  std::vector<bool> has_gradient;  ///< [variable]
  std::vector<UpdateRun> runs;
};

/// The state of an optimizer: for every variable its slots, its step and its group. The slots are
/// stored contiguously like the parameters, and shared between replicas if the parameters are. It
/// does not depend on how gradients were computed.
///
/// Where parameters are not on the CPU, their numbers of updates and their rates are also on their
/// device (`DeviceCounters`), and updates read them there.
///
/// Thread-safety: `apply` on disjoint ranges, or for different replicas' own storage, may run at
/// the same time. All other functions: one thread, between updates.
class OptimizerState {
 public:
  /// Uses the trainable variables among `variables`. Throws kInvalidArgument if there are none, for
  /// a duplicate variable, for invalid groups (see `assign_groups`), and for a partition of a
  /// variable if the rule needs whole variables.
  OptimizerState(UpdateRulePtr rule, std::span<const variables::Variable> variables,
                 std::span<const ParameterGroup> groups);

  const UpdateRule& rule() const { return *rule_; }
  /// In the order of their storage, which is also the order of gradients.
  const std::vector<variables::Variable>& variables() const { return variables_; }
  const std::vector<std::shared_ptr<variables::VariableStorage>>& storages() const {
    return storages_;
  }
  bool is_frozen(std::size_t variable) const { return groups_[variable].frozen; }
  /// The number of updates of the variable.
  std::int64_t step(std::size_t variable) const { return steps_[variable]; }
  /// For updates that were made elsewhere: the variable has had `updates` of them. Throws
  /// kInvalidArgument below 0.
  void set_step(std::size_t variable, std::int64_t updates);
  /// The rates of the variable: its group's, where the group sets them.
  Hyperparameters hyperparameters(std::size_t variable) const;
  /// What the variable's group sets.
  const GroupedHyperparameters& group(std::size_t variable) const { return groups_[variable]; }
  /// The base rate, which applies to groups without their own rate.
  double learning_rate() const { return learning_rate_; }
  /// Throws kInvalidArgument for a negative rate.
  void set_learning_rate(double rate);

  /// Divides the variables into runs. `has_gradient[i]` tells whether variable i has a gradient in
  /// any replica; variables without one, and frozen ones, are in no run, and their values, slots
  /// and steps do not change.
  std::vector<UpdateRun> runs(const std::vector<bool>& has_gradient) const;

  /// Updates elements [begin, end) of replica `replica`'s part of `run` with a gradient of [end -
  /// begin] elements, in the order of the storage. Throws kInvalidArgument, naming the variable,
  /// for a gradient with another number of elements or another dtype than the variables', and for a
  /// part of `run` if the rule needs whole variables. The bits of an element do not depend on how a
  /// run is divided into parts, nor on `apply_whole`.
  void apply(int replica, const UpdateRun& run, std::int64_t begin, std::int64_t end,
             const at::Tensor& gradient);
  /// Updates the whole variables of `run`, each with its own gradient, contiguous and in memory
  /// order (`variables::in_memory_order`): nothing is copied. Throws as `apply`.
  void apply_whole(int replica, const UpdateRun& run, std::span<const at::Tensor> gradients);

  /// Counts the update of `runs`. Call it once, after every replica has applied the update.
  void advance(const std::vector<bool>& has_gradient);

  /// For updates that are captured with their step: queues what gives replica `replica`'s device
  /// the rate and the numbers of updates of the host. Before each capture and each replay.
  void follow_host(int replica);
  /// While it exists, `apply` and `advance` count nothing on the host, for a captured update is not
  /// made.
  class CaptureScope {
   public:
    explicit CaptureScope(OptimizerState& state) : state_(state) { state.captured_.emplace(); }
    ~CaptureScope() { state_.captured_.reset(); }
    CaptureScope(const CaptureScope&) = delete;
    CaptureScope& operator=(const CaptureScope&) = delete;
    /// What was captured of replica `replica`. Throws kFailedPrecondition if its parameters are on
    /// the CPU, where updates read the host's numbers.
    CapturedUpdate update(int replica) const;

   private:
    OptimizerState& state_;
  };
  /// Whether an update with the same gradients would be made by the same calls as the captured one:
  /// not after variables with one number of updates got different ones.
  bool can_replay(const CapturedUpdate& update) const;
  /// Counts on the host that the update was replayed.
  void count_replay(int replica, const CapturedUpdate& update);

  /// Variable `variable`'s slot tensor in replica `replica`, in the variable's shape, as an alias.
  at::Tensor slot(std::size_t variable, std::size_t slot, int replica) const;

  /// The complete state, for a checkpoint in which this optimizer is called `name`. The slots are
  /// aliases of replica 0's, or joined copies: copy them before the next update. Joined partitions
  /// have the first one's number of updates.
  SavedOptimizer save(std::string_view name) const;
  /// Checks whether `restore` would accept it, and returns the variables that are missing. Throws
  /// kInvalidArgument, naming both, for slots of another rule (a different learning rate is
  /// allowed) or of another shape or dtype; `missing` decides about missing variables.
  std::vector<std::string> check(std::string_view name, const SavedOptimizer& saved,
                                 MissingSlots missing = MissingSlots::kRefuse) const;
  /// Restores a saved state, for any strategy and number of replicas that saved it. The learning
  /// rate is the saved one, unless the rule was created with a different rate than when it was
  /// saved: then the program's rate applies. Throws as `check`, and then nothing is changed.
  /// Returns what `check` returns.
  std::vector<std::string> restore(std::string_view name, const SavedOptimizer& saved,
                                   MissingSlots missing = MissingSlots::kRefuse);

 private:
  struct Views {  // of one range, cached between steps: all arguments but the gradients
    std::size_t storage;
    std::int64_t begin, end;  // elements in ranges_, variables in whole_runs_
    UpdateArguments arguments;
  };
  struct KnownViews {
    std::vector<Views> views;
    std::size_t next = 0;  // where to look first

    /// Null: there are none of this range yet.
    Views* find(std::size_t storage, std::int64_t begin, std::int64_t end);
    UpdateArguments& add(Views made);
  };
  void add_storage(const variables::Variable& variable);
  void add_counters();
  void check_whole_variables() const;
  std::string slot_name(std::string_view name, std::size_t slot, const std::string& of) const;
  std::string saved_name(const SavedOptimizer& saved, std::size_t variable) const;
  at::Tensor saved_part(std::size_t variable, const std::string& saved_name,
                        const at::Tensor& saved) const;
  std::vector<std::int64_t> saved_shape(std::size_t variable, const std::string& saved_name) const;
  void join_partitions(std::string_view name, SavedOptimizer& saved) const;
  void check_gradient(std::size_t variable, const at::Tensor& gradient, std::int64_t numel) const;
  bool continues(const UpdateRun& run, std::size_t variable) const;
  const at::Tensor& slot_buffer(std::size_t storage, std::size_t slot, int replica) const;
  std::vector<at::Tensor> slot_views(std::size_t storage, int replica, std::int64_t begin,
                                     std::int64_t end) const;
  void read_on_device(int replica, const UpdateRun& run, UpdateArguments& arguments);
  std::optional<DeviceCounters>& counters(int replica) {
    return counters_[counters_.size() == 1 ? 0 : static_cast<std::size_t>(replica)];
  }
  UpdateArguments& arguments_of(int replica, const UpdateRun& run, std::int64_t begin,
                                std::int64_t end);
  UpdateArguments& arguments_of_whole(int replica, const UpdateRun& run);
  void add_variable(int replica, std::size_t variable, UpdateArguments& arguments) const;

  const UpdateRulePtr rule_;
  double learning_rate_;
  std::vector<variables::Variable> variables_;
  std::vector<std::size_t> storage_of_;  // [variable]
  std::vector<GroupedHyperparameters> groups_;
  std::vector<std::int64_t> steps_;
  std::vector<std::shared_ptr<variables::VariableStorage>> storages_;
  std::vector<std::vector<std::vector<at::Tensor>>>
      slots_;                           // [storage][slot][replica, or one for all]
  std::vector<KnownViews> ranges_;      // [replica], of `apply`: touched by its replica alone
  std::vector<KnownViews> whole_runs_;  // [replica], of `apply_whole`; likewise
  std::vector<std::optional<DeviceCounters>> counters_;  // [replica, or one for all]; not on CPUs
  std::optional<CapturedUpdate> captured_;               // while an update is captured
};

}  // namespace brigade::optim
