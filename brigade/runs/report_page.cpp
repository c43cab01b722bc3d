#include "brigade/runs/report_page.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/io/sha256.h"
#include "brigade/runs/page_parts.h"

namespace brigade::runs {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

/// The number with the fewest digits that is the same in 32 bits, as which files have it; what is
/// not finite becomes null.
double rounded(double value) {
  if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();
  const std::string digits = base::str_cat(static_cast<float>(value));
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

Json json_of(const Curve& curve, std::size_t most_points) {
  Json steps = Json::array();
  Json values = Json::array();
  Json times = Json::array();
  for (const CurvePoint& point : thinned(curve.points, most_points)) {
    steps.push_back(point.step);
    values.push_back(rounded(point.value));
    times.push_back(std::round(point.time * 10) / 10);
  }
  return {{"tag", base::printable(curve.tag)},
          {"steps", std::move(steps)},
          {"values", std::move(values)},
          {"times", std::move(times)}};
}

Json json_of(const std::vector<Curve>& curves, std::size_t most_points) {
  Json all = Json::array();
  for (const Curve& each : curves) all.push_back(json_of(each, most_points));
  return all;
}

Json json_of(const std::vector<RunFact>& facts) {
  Json all = Json::array();
  for (const auto& [name, value] : facts) all.push_back({name, value});
  return all;
}

Json json_of(const ProcessStart& start) {
  return {{"time", start.time},   {"step", start.step}, {"repeated", start.repeated},
          {"pause", start.pause}, {"host", start.host}, {"process", start.process}};
}

Json json_of(const CheckpointRecord& checkpoint) {
  return {{"name", checkpoint.name},
          {"step", checkpoint.step},
          {"time", checkpoint.time},
          {"bytes", checkpoint.bytes},
          {"problem", checkpoint.problem}};
}

Json json_of(const PhaseFractions& fractions) {
  Json all = Json::object();
  for (const auto& [phase, fraction] : fractions) all[phase] = fraction;
  return all;
}

template <class T>
Json list_of(const std::vector<T>& values) {
  Json all = Json::array();
  for (const T& each : values) all.push_back(json_of(each));
  return all;
}

Json json_of(const RunRecord& run, std::size_t most_points) {
  return {{"name", run.name},
          {"path", base::printable(run.path.string())},
          {"state", to_string(run.state)},
          {"holder", run.holder},
          {"total_steps", or_null(run.total_steps)},
          {"examples_per_step", or_null(run.examples_per_step)},
          {"workers", or_null(run.workers)},
          {"devices", run.devices},
          {"configuration", json_of(run.configuration)},
          {"result", json_of(run.result)},
          {"machine", json_of(run.machine)},
          {"step_fractions", list_of(run.step_fractions)},
          {"training", json_of(run.training, most_points)},
          {"evaluation", json_of(run.evaluation, most_points)},
          {"starts", list_of(run.starts)},
          {"last_time", run.last_time},
          {"checkpoints", list_of(run.checkpoints)},
          {"missing", run.missing}};
}

/// Only in strings are these characters in JSON.
std::string without_markup(const std::string& json) {
  std::string safe;
  for (const char each : json) {
    switch (each) {
      case '<':
        safe += "\\u003c";
        break;
      case '>':
        safe += "\\u003e";
        break;
      case '&':
        safe += "\\u0026";
        break;
      default:
        safe += each;
    }
  }
  return safe;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = i; j < i + 3; ++j)
      group = group << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j)
      text += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

/// As a page's policy names the inline script or style that may be used.
std::string source_hash(std::string_view text) {
  const std::string digits = io::sha256_hex(text);
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return base::str_cat("'sha256-", base64(bytes), "'");
}

std::string policy() {
  return base::str_cat("default-src 'none'; base-uri 'none'; form-action 'none'; script-src ",
                       source_hash(page_script()), "; style-src ", source_hash(page_style()));
}

}  // namespace

std::string report_data(std::span<const RunRecord> runs, const ReportOptions& options) {
  Json all = Json::array();
  for (const RunRecord& each : runs) all.push_back(json_of(each, options.most_points));
  const Json data = {{"time", options.time}, {"runs", std::move(all)}};
  return without_markup(data.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string report_page(std::span<const RunRecord> runs, const ReportOptions& options) {
  check_argument(!runs.empty(), "A report is about at least one run.");
  std::string page;
  std::string_view rest = page_html();
  // One pass, so that nothing in the data is taken for a mark.
  while (!rest.empty()) {
    const std::size_t mark = rest.find("{{");
    const std::size_t end = rest.find("}}", mark);
    page += rest.substr(0, mark);
    if (end == std::string_view::npos) break;
    const std::string_view name = rest.substr(mark + 2, end - mark - 2);
    if (name == "policy") page += policy();
    if (name == "style") page += page_style();
    if (name == "script") page += page_script();
    if (name == "data") page += report_data(runs, options);
    rest.remove_prefix(end + 2);
  }
  return page;
}

}  // namespace brigade::runs
