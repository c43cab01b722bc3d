#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "brigade/models/testing/pattern_weights.h"
#include "brigade/variables/variable_lists.h"

/// What the Python original of a model computes with the weights of pattern_weights.h, as the
/// scripts make_*_values.py wrote it, and comparisons with it.
namespace brigade::parity {

struct OriginalCase {
  std::string original;  ///< "torchvision", "tf_slim", or the name of a model
  std::int64_t side = 0;
  bool training = false;
  std::vector<std::vector<double>> logits, auxiliary;  ///< [example][class]; none: empty
  double loss = 0.0;
  std::map<std::string, models::TensorSummary> gradients;   ///< by the original's name
  std::map<std::string, models::TensorSummary> statistics;  ///< of batch norm, after the pass
};

inline OriginalCase original_case(const nlohmann::json& json) {
  OriginalCase made{.original = json.at("original"),
                    .side = json.at("side"),
                    .training = json.at("training"),
                    .logits = json.at("logits"),
                    .loss = json.at("loss")};
  if (!json.at("auxiliary").is_null()) made.auxiliary = json.at("auxiliary");
  for (std::size_t i = 0; i < json.at("names").size(); ++i) {
    const std::array<double, 3> of = json.at("gradients").at(i);
    made.gradients[json.at("names").at(i)] = {of[0], of[1], of[2]};
  }
  if (!json.contains("statistics")) return made;
  for (const auto& [name, summary] : json.at("statistics").items()) {
    const std::array<double, 3> of = summary;
    made.statistics[name] = {of[0], of[1], of[2]};
  }
  return made;
}

/// The case of the file. Throws if there is none.
inline OriginalCase read_original_case(const std::string& path, const std::string& original,
                                       std::int64_t side, bool training) {
  for (const auto& json : nlohmann::json::parse(std::ifstream(path))) {
    if (json.at("original") != original || json.at("side") != side) continue;
    if (json.at("training") == training) return original_case(json);
  }
  throw std::runtime_error("no such case in " + path);
}

/// The original's names of the current graph's variables, by ours. Empty `names`: they are the
/// same.
using OriginalNames = std::map<std::string, std::string>;

inline std::string original_name(const OriginalNames& names, const std::string& ours) {
  return names.empty() ? ours : names.at(ours);
}

/// Gives every variable of the current graph the values that the script gave it. Trailing
/// dimensions of 1 change neither the elements nor their range.
inline void set_pattern_weights(const OriginalNames& names) {
  for (const auto& variable : variables::global_variables()) {
    variable.assign(
        models::pattern_weights(original_name(names, variable.name()), variable.shape()));
  }
}

/// Within `tolerance`, relative to the largest.
inline void expect_rows(const at::Tensor& found, const std::vector<std::vector<double>>& wanted,
                        double tolerance) {
  ASSERT_EQ(found.size(0), static_cast<std::int64_t>(wanted.size()));
  for (std::size_t row = 0; row < wanted.size(); ++row) {
    const auto values = at::tensor(wanted[row], at::kDouble);
    const auto apart = found[static_cast<std::int64_t>(row)].detach().to(at::kDouble) - values;
    EXPECT_LE(apart.abs().max().item<double>(), tolerance * values.abs().max().item<double>())
        << "row " << row;
  }
}

/// The difference of two summaries, relative to the length of the tensor, or to `least` if that is
/// more.
inline double difference(const models::TensorSummary& found, const models::TensorSummary& wanted,
                         double least = 0.0) {
  const double length = std::sqrt(wanted.squares);
  const double apart =
      std::max({std::abs(std::sqrt(found.squares) - length), std::abs(found.probe - wanted.probe),
                std::abs(found.sum - wanted.sum)});
  return apart / std::max(length, least);
}

/// That the gradients of the current graph's trainable variables are the original's, within
/// `tolerance`, relative to each gradient's length. Gradients that are shorter than `least` times
/// all of them together are compared relative to that: those of biases before batch norm are
/// rounding errors alone.
inline void expect_gradients(const OriginalCase& wanted, const OriginalNames& names,
                             double tolerance, double least = 0.0) {
  double squares = 0.0;
  for (const auto& [name, of] : wanted.gradients) squares += of.squares;
  std::size_t compared = 0;
  double largest = 0.0;
  for (const auto& variable : variables::trainable_variables()) {
    const std::string name = original_name(names, variable.name());
    const auto& gradient = variable.component(0).grad();
    ASSERT_EQ(gradient.defined(), wanted.gradients.contains(name)) << name;
    if (!gradient.defined()) continue;
    ++compared;
    const auto found = models::summary_of(name, gradient);
    const auto& of = wanted.gradients.at(name);
    const double apart = difference(found, of, least * std::sqrt(squares));
    largest = std::max(largest, apart);
    EXPECT_LE(apart, tolerance) << name << ": sum " << found.sum << " and " << of.sum;
  }
  EXPECT_EQ(compared, wanted.gradients.size());
  ::testing::Test::RecordProperty("largest_difference_of_a_gradient", std::to_string(largest));
}

/// That the variables for which the case has statistics have the original's values, within
/// `tolerance`, relative to their length.
inline void expect_statistics(const OriginalCase& wanted, const OriginalNames& names,
                              double tolerance) {
  std::size_t compared = 0;
  for (const auto& variable : variables::global_variables()) {
    const std::string name = original_name(names, variable.name());
    const auto of = wanted.statistics.find(name);
    if (of == wanted.statistics.end()) continue;
    ++compared;
    EXPECT_LE(difference(models::summary_of(name, variable.read()), of->second), tolerance) << name;
  }
  EXPECT_EQ(compared, wanted.statistics.size());
}

}  // namespace brigade::parity
