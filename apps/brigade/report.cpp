#include "apps/brigade/report.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/train/model/evaluate.h"

namespace brigade::command {

namespace {

void print(std::string_view text) {
  errno = 0;
  std::cout << text << std::flush;
  if (std::cout) return;
  throw Error(ErrorCode::kUnavailable, "standard output cannot be written",
              errno == 0 ? "" : base::str_cat(": ", std::strerror(errno)));
}

}  // namespace

void print_json(const Json& object) {
  print(object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void print_text(const std::string& text) {
  print(base::printable_lines(text));
}

void OutputFlag::add_to(CLI::App& app) {
  app.add_flag("--json", json, "Write one JSON object to standard output")->group("Output");
}

void OutputFlag::print(const Json& object, const std::string& text) const {
  json ? print_json(object) : print_text(text);
}

Json evaluation_json(std::int64_t step, const train::EvaluationResult& result) {
  return {{"step", step},
          {"accuracy", result.accuracy},
          {"top_5_accuracy", result.top_5_accuracy},
          {"loss", result.loss},
          {"examples", result.examples}};
}

void log_evaluation(std::int64_t step, const train::EvaluationResult& result) {
  base::log_info("evaluation at step ", step, ": accuracy ", fixed(100 * result.accuracy, 2),
                 " %, loss ", fixed(result.loss, 4));
}

std::string evaluation_text(double accuracy, double loss) {
  return base::str_cat("test accuracy    ", fixed(100 * accuracy, 2), " %\ntest loss        ",
                       fixed(loss, 4), "\n");
}

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

}  // namespace brigade::command
