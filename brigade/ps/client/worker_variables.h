#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "brigade/ps/client/placed_variables.h"
#include "brigade/ps/client/tensor_form.h"
#include "brigade/ps/parameter_service.h"

namespace brigade::ps {

/// The variables of a job as a worker knows them: on which servers they are, what form they have,
/// and which it pulls by rows.
///
/// Thread-safety: const calls from any thread.
class WorkerVariables {
 public:
  WorkerVariables() = default;
  /// Their forms are not known.
  explicit WorkerVariables(PlacedVariables placed);
  /// `variables`: exactly those that are placed.
  WorkerVariables(PlacedVariables placed, std::span<const Creation> variables);

  const PlacedVariables& placed() const { return placed_; }
  std::size_t size() const { return placed_.size(); }
  const PlacedVariable& operator[](std::size_t i) const { return placed_[i]; }

  bool has_forms() const { return forms_.size() == size(); }
  /// Of the values; those that were not pulled as wholes are undefined, and keep the form that is
  /// known.
  void learn_forms(std::span<const Parameter::Reading> values);
  const TensorForm& form(std::size_t variable) const { return forms_[variable]; }

  /// From now on rows of it are pulled.
  void pull_by_rows(std::size_t variable) { is_by_rows_.at(variable) = true; }
  /// The variables of a server that are pulled as wholes: all before their forms are known.
  std::vector<std::size_t> wholes_of(int server) const;
  /// Of their values; 0 until the forms are known.
  std::uint64_t value_bytes(std::span<const std::size_t> variables) const;
  /// Of `rows` rows; 0 until the forms are known.
  std::uint64_t value_bytes_of_rows(std::size_t variable, std::int64_t rows) const;

 private:
  PlacedVariables placed_;
  std::vector<TensorForm> forms_;  // empty until they are known
  std::vector<bool> is_by_rows_;
};

}  // namespace brigade::ps
