#include <CLI/CLI.hpp>
#include <ctime>
#include <nlohmann/json.hpp>

#include "apps/brigade/commands.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/report.h"
#include "apps/brigade/run_directory.h"
#include "apps/brigade/weights.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/inspect.h"

namespace brigade::command {
namespace {

using checkpoint::Comparison;
using checkpoint::InspectedTensor;
using checkpoint::Inspection;
using checkpoint::Section;
using checkpoint::TensorDifference;

constexpr const char* kInspectExamples = R"(Examples:
  brigade inspect /tmp/run
      the newest complete checkpoint of a model directory
  brigade inspect /tmp/run/checkpoints/ckpt-500 --json
      one checkpoint, with JSON output
  brigade inspect /tmp/run/checkpoints/ckpt-500 weights.safetensors
      how they differ: exit code 0 if they are equal, 1 if not
  brigade inspect inception_v3.ckpt.index
      a checkpoint of TensorFlow)";

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return base::str_cat("[", base::join(shape, ", "), "]");
}

// Users look for variables: only names of other sections have a prefix.
std::string full_name(Section section, const std::string& name) {
  const std::string shown = base::printable(name);
  return section == Section::kVariables ? shown : base::str_cat(section, ":", shown);
}

std::string line_of(const InspectedTensor& tensor) {
  return base::str_cat("  ", full_name(tensor.section, tensor.name), "  ",
                       base::printable(tensor.dtype), " ", shape_text(tensor.shape),
                       tensor.not_finite == 0
                           ? ""
                           : base::str_cat("  ", tensor.not_finite, " elements are not finite"),
                       "\n");
}

std::string time_text(std::int64_t milliseconds) {
  const auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm parts{};
  char text[64];
  if (gmtime_r(&seconds, &parts) == nullptr ||
      std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
    return base::str_cat(milliseconds, " ms since 1970");
  }
  return text;
}

Json json_of(const InspectedTensor& tensor) {
  return {{"section", to_string(tensor.section)},
          {"name", tensor.name},
          {"dtype", tensor.dtype},
          {"shape", tensor.shape},
          {"bytes", tensor.bytes},
          {"not_finite", tensor.not_finite}};
}

template <class T>
Json optional(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json json_of(const Inspection& seen) {
  Json json;
  json["path"] = seen.path.string();
  json["format"] = seen.format;
  json["step"] = optional(seen.step);
  json["number"] = optional(seen.number);
  json["time_ms"] = optional(seen.time_ms);
  json["bytes"] = seen.bytes;
  json["metrics"] = seen.metrics;
  json["metadata"] = seen.metadata;
  json["tensors"] = Json::array();
  for (const InspectedTensor& each : seen.tensors) json["tensors"].push_back(json_of(each));
  json["left_out"] = seen.left_out;
  return json;
}

Json json_of(const TensorDifference& difference) {
  return {{"section", to_string(difference.section)},
          {"name", difference.name},
          {"a", difference.a},
          {"b", difference.b}};
}

Json json_of(const Comparison& found) {
  Json json;
  json["equal"] = found.is_equal();
  json["a"] = found.a.path.string();
  json["b"] = found.b.path.string();
  json["equal_tensors"] = found.equal;
  json["step_differs"] = found.step_differs;
  json["state_differs"] = found.state_differs;
  for (const char* key : {"only_in_a", "only_in_b", "form_differs", "value_differs"}) {
    json[key] = Json::array();
  }
  for (const auto& each : found.only_in_a) json["only_in_a"].push_back(json_of(each));
  for (const auto& each : found.only_in_b) json["only_in_b"].push_back(json_of(each));
  for (const auto& each : found.form_differs) json["form_differs"].push_back(json_of(each));
  for (const TensorDifference& each : found.value_differs) {
    Json entry = json_of(each);
    entry["max_abs_difference"] = each.max_abs_difference;
    entry["differing"] = each.differing;
    json["value_differs"].push_back(std::move(entry));
  }
  return json;
}

std::string text_of(const Inspection& seen) {
  std::string text =
      base::str_cat(base::printable(seen.path.string()), ": ", seen.format, ", ",
                    seen.tensors.size(), " tensors, ", base::human_bytes(seen.bytes), "\n");
  if (seen.step) text += base::str_cat("step       ", *seen.step, "\n");
  if (seen.time_ms) text += base::str_cat("saved      ", time_text(*seen.time_ms), "\n");
  for (const auto& [name, value] : seen.metrics) {
    text += base::str_cat("metric     ", base::printable(name), " ", value, "\n");
  }
  for (const auto& [name, value] : seen.metadata) {
    text += base::str_cat("metadata   ", base::printable(name), " ", base::printable(value), "\n");
  }
  for (const InspectedTensor& each : seen.tensors) text += line_of(each);
  for (const std::string& each : seen.left_out) {
    text += base::str_cat("  ", base::printable(each), "  not read\n");
  }
  return text;
}

std::string text_of(const Comparison& found) {
  if (found.is_equal()) return base::str_cat("equal: ", found.equal, " tensors\n");
  std::string text;
  if (found.step_differs) {
    text += base::str_cat("steps differ: ", *found.a.step, " and ", *found.b.step, "\n");
  }
  if (found.state_differs) text += "states differ\n";
  const auto list = [&](std::string_view title, const std::vector<InspectedTensor>& tensors) {
    if (!tensors.empty()) text += base::str_cat(title, "\n");
    for (const InspectedTensor& each : tensors) text += line_of(each);
  };
  list(base::str_cat("only in ", base::printable(found.a.path.string()), ":"), found.only_in_a);
  list(base::str_cat("only in ", base::printable(found.b.path.string()), ":"), found.only_in_b);
  if (!found.form_differs.empty()) text += "shape or dtype differs:\n";
  for (const TensorDifference& each : found.form_differs) {
    text += base::str_cat("  ", full_name(each.section, each.name), "  ", each.a, " and ", each.b,
                          "\n");
  }
  if (!found.value_differs.empty()) text += "values differ:\n";
  for (const TensorDifference& each : found.value_differs) {
    text += base::str_cat("  ", full_name(each.section, each.name), "  ", each.a, "  ",
                          each.differing, " elements, by at most ", each.max_abs_difference, "\n");
  }
  return text + base::str_cat("equal: ", found.equal, " tensors\n");
}

class InspectCommand final : public Command {
 public:
  explicit InspectCommand(CLI::App& parent)
      : Command(parent, "inspect", "Show what a checkpoint holds, or compare two") {
    parser_
        .add_option("PATH", path_,
                    "A checkpoint, a model directory, a directory of checkpoints, or a file")
        ->required();
    parser_.add_option("OTHER", other_, "Another one to compare it with");
    output_.add_to(parser_);
    add_hash_mismatch(parser_, allow_changed_weights_);
    parser_.footer(kInspectExamples);
  }

  int run() override {
    const auto files = io::posix_file_system();
    const auto mismatch = hash_mismatch(allow_changed_weights_);
    if (other_.empty()) {
      const Inspection seen = set_up([&] {
        return checkpoint::inspect(files, resolve_checkpoint_path(*files, path_), mismatch);
      });
      output_.print(json_of(seen), text_of(seen));
      return kDone;
    }
    const Comparison found = set_up([&] {
      return checkpoint::compare(files, resolve_checkpoint_path(*files, path_),
                                 resolve_checkpoint_path(*files, other_), mismatch);
    });
    output_.print(json_of(found), text_of(found));
    return found.is_equal() ? kDone : kFailed;
  }

 private:
  std::string path_;
  std::string other_;
  OutputFlag output_;
  bool allow_changed_weights_ = false;
};

}  // namespace

std::unique_ptr<Command> make_inspect_command(CLI::App& parent) {
  return std::make_unique<InspectCommand>(parent);
}

}  // namespace brigade::command
