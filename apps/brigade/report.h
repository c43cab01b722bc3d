#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace CLI {
class App;
}
namespace brigade::train {
struct EvaluationResult;
}

namespace brigade::command {

/// The keys keep the order in which they were set.
using Json = nlohmann::ordered_json;

/// Writes `object` as the last line of standard output. Numbers that JSON lacks (NaN, infinities)
/// become null. Throws kUnavailable if standard output cannot be written.
void print_json(const Json& object);

/// Writes lines of text to standard output, escaped for a terminal by `base::printable_lines`.
/// Text from a file must go through `base::printable` before it becomes part of a line. Throws as
/// `print_json`.
void print_text(const std::string& text);

/// `--json`, and the result that it gives another form.
struct OutputFlag {
  bool json = false;

  void add_to(CLI::App& app);
  /// Writes `object` with the flag, else the text.
  void print(const Json& object, const std::string& text) const;
};

/// An evaluation at a step, as JSON.
Json evaluation_json(std::int64_t step, const train::EvaluationResult& result);
/// Logs it as one line.
void log_evaluation(std::int64_t step, const train::EvaluationResult& result);
/// "test accuracy ..." and "test loss ...", a line each.
std::string evaluation_text(double accuracy, double loss);

/// Seconds between two moments.
double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end);

/// `value` with `digits` digits after the decimal point.
std::string fixed(double value, int digits);

}  // namespace brigade::command
