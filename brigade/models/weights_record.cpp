#include "brigade/models/weights_record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/io/state_json.h"
#include "brigade/io/state_tree.h"

namespace brigade::models {
namespace {

using io::StateKind;
using io::StateTree;

constexpr std::int64_t kRecordVersion = 1;
constexpr std::array<std::string_view, 2> kOriginals = {"tf_slim", "torchvision"};

template <class Range>
StateTree list_of(const Range& values) {
  StateTree list = StateTree::list();
  for (const auto& each : values) list.push_back(StateTree(each));
  return list;
}

void check_finite(double value, std::string_view field) {
  check_argument(std::isfinite(value), "weights record: ", field, " is ", value,
                 "; expected a number");
}

// The binding fails to compile when an option is added: then it belongs here and in `options_of`.
StateTree tree_of(const ModelOptions& options) {
  const auto& [inputs, classes, hidden, dropout, image_shape, original, auxiliary_logits,
               end_points] = options;
  static_cast<void>(end_points);  // of one program's passes, not of the weights
  StateTree tree;
  tree["inputs"] = inputs;
  tree["classes"] = classes;
  tree["hidden"] = list_of(hidden);
  if (dropout) {
    check_finite(*dropout, "dropout");
    tree["dropout"] = *dropout;
  }
  tree["image_shape"] = list_of(image_shape);
  tree["original"] = kOriginals.at(static_cast<std::size_t>(original));
  if (auxiliary_logits) tree["auxiliary_logits"] = true;
  return tree;
}

StateTree tree_of(const Preprocessing& preprocessing) {
  check_argument(preprocessing.mean.size() == preprocessing.deviation.size(),
                 "weights record: ", preprocessing.mean.size(), " means and ",
                 preprocessing.deviation.size(),
                 " deviations; expected one of each for each channel");
  check_finite(preprocessing.scale, "scale");
  for (const double each : preprocessing.mean) check_finite(each, "a mean");
  for (const double each : preprocessing.deviation) check_finite(each, "a deviation");
  StateTree tree;
  tree["resize"] = preprocessing.resize;
  tree["interpolation"] = to_string(preprocessing.interpolation);
  tree["crop"] = list_of(std::array{preprocessing.crop.height, preprocessing.crop.width});
  tree["scale"] = preprocessing.scale;
  tree["mean"] = list_of(preprocessing.mean);
  tree["deviation"] = list_of(preprocessing.deviation);
  return tree;
}

/// Reads the fields of a dict; every field must be known.
class RecordFields {
 public:
  RecordFields(const StateTree& tree, std::string_view source, std::string_view what)
      : tree_(tree), source_(source), what_(what) {
    if (tree.kind() != StateKind::kDict) fail("it is not an object");
  }

  const StateTree* find(std::string_view name) {
    known_.emplace_back(name);
    return tree_.has(name) ? &tree_.at(name) : nullptr;
  }
  void read(std::string_view name, std::int64_t& to) {
    if (const StateTree* found = find(name)) to = whole(*found, name);
  }
  void read(std::string_view name, std::string& to) {
    if (const StateTree* found = find(name)) to = text(*found, name);
  }
  void read(std::string_view name, bool& to) {
    const StateTree* found = find(name);
    if (found == nullptr) return;
    if (found->kind() != StateKind::kBool) fail(name, " is not true or false");
    to = found->as_bool();
  }
  void read(std::string_view name, double& to) {
    if (const StateTree* found = find(name)) to = number(*found, name);
  }
  void read(std::string_view name, std::vector<std::int64_t>& to) {
    read_list(name, to, [&](const StateTree& each) { return whole(each, name); });
  }
  void read(std::string_view name, std::vector<double>& to) {
    read_list(name, to, [&](const StateTree& each) { return number(each, name); });
  }
  void read(std::string_view name, std::vector<std::string>& to) {
    read_list(name, to, [&](const StateTree& each) { return text(each, name); });
  }
  void check_all_known() const {
    for (const auto& [name, value] : tree_.as_dict()) {
      if (std::ranges::find(known_, name) != known_.end()) continue;
      throw Error(ErrorCode::kUnimplemented, source_, ": the record of the weights has ", what_,
                  " ", base::quoted(name),
                  ", which this version does not know; known: ", base::join(known_, ", "));
    }
  }
  template <class... T>
  [[noreturn]] void fail(const T&... pieces) const {
    throw Error(ErrorCode::kDataLoss, source_, ": the record of the weights, ", what_, ": ",
                pieces...);
  }

 private:
  template <class T, class Read>
  void read_list(std::string_view name, std::vector<T>& to, const Read& element) {
    const StateTree* found = find(name);
    if (found == nullptr) return;
    if (found->kind() != StateKind::kList) fail(name, " is not a list");
    to.clear();
    for (const StateTree& each : found->as_list()) to.push_back(element(each));
  }
  std::int64_t whole(const StateTree& tree, std::string_view name) const {
    if (tree.kind() != StateKind::kInt64) fail(name, " is not a whole number");
    return tree.as_int64();
  }
  double number(const StateTree& tree, std::string_view name) const {
    const bool is_whole = tree.kind() == StateKind::kInt64;
    if (!is_whole && tree.kind() != StateKind::kDouble) fail(name, " is not a number");
    const double value = is_whole ? static_cast<double>(tree.as_int64()) : tree.as_double();
    if (!std::isfinite(value)) fail(name, " is not finite");
    return value;
  }
  const std::string& text(const StateTree& tree, std::string_view name) const {
    if (tree.kind() != StateKind::kString) fail(name, " is not text");
    return tree.as_string();
  }

  const StateTree& tree_;
  std::string_view source_;
  std::string_view what_;
  std::vector<std::string> known_;
};

ModelOptions options_of(const StateTree& tree, std::string_view source) {
  ModelOptions options;
  RecordFields fields(tree, source, "option");
  fields.read("inputs", options.inputs);
  fields.read("classes", options.classes);
  fields.read("hidden", options.hidden);
  if (tree.has("dropout")) fields.read("dropout", options.dropout.emplace());
  fields.read("image_shape", options.image_shape);
  std::string original(kOriginals[static_cast<std::size_t>(options.original)]);
  fields.read("original", original);
  const auto known = std::ranges::find(kOriginals, original);
  if (known == kOriginals.end()) {
    fields.fail("original is ", base::quoted(original), "; known are ",
                base::join(kOriginals, ", "));
  }
  options.original = static_cast<Original>(known - kOriginals.begin());
  fields.read("auxiliary_logits", options.auxiliary_logits);
  fields.check_all_known();
  return options;
}

Preprocessing preprocessing_of(const StateTree& tree, std::string_view source) {
  Preprocessing result;
  RecordFields fields(tree, source, "preprocessing");
  fields.read("resize", result.resize);
  fields.read("scale", result.scale);
  fields.read("mean", result.mean);
  fields.read("deviation", result.deviation);
  std::vector<std::int64_t> crop = {0, 0};
  fields.read("crop", crop);
  if (crop.size() != 2) fields.fail("crop is not a height and a width");
  result.crop = {.height = crop[0], .width = crop[1]};
  std::string interpolation(to_string(result.interpolation));
  fields.read("interpolation", interpolation);
  try {
    result.interpolation = image::interpolation_of(interpolation);
  } catch (const Error& error) {
    fields.fail("interpolation: ", error.what());
  }
  if (result.mean.size() != result.deviation.size()) {
    fields.fail(result.mean.size(), " means and ", result.deviation.size(), " deviations");
  }
  fields.check_all_known();
  return result;
}

bool has_all_categories(const WeightsRecord& record) {
  return record.categories.empty() ||
         std::cmp_equal(record.categories.size(), record.options.classes);
}

std::string categories_text(const WeightsRecord& record) {
  return base::str_cat(record.categories.size(), " categories for ", record.options.classes,
                       " classes");
}

}  // namespace

std::string to_json(const WeightsRecord& record) {
  check_argument(!record.model.empty(), "weights record: no model is named");
  check_argument(has_all_categories(record), "weights record: ", categories_text(record));
  StateTree tree;
  tree["version"] = kRecordVersion;
  tree["model"] = record.model;
  tree["options"] = tree_of(record.options);
  if (record.preprocessing) tree["preprocessing"] = tree_of(*record.preprocessing);
  if (!record.categories.empty()) tree["categories"] = list_of(record.categories);
  return io::to_json(tree).json;
}

WeightsRecord parse_weights_record(std::string_view json, std::string_view source) {
  StateTree tree;
  try {
    tree = io::from_json(json);
  } catch (const Error& error) {
    throw Error(ErrorCode::kDataLoss, source, ": the record of the weights: ", error.what());
  }
  RecordFields fields(tree, source, "field");
  std::int64_t version = 0;
  fields.read("version", version);
  if (version > kRecordVersion) {
    throw Error(ErrorCode::kUnimplemented, source, ": the record of the weights has the version ",
                version, "; this program reads ", kRecordVersion);
  }
  WeightsRecord record;
  fields.read("model", record.model);
  if (version < 1 || record.model.empty()) fields.fail("it has no version or no model");
  fields.read("categories", record.categories);
  if (const StateTree* options = fields.find("options")) {
    record.options = options_of(*options, source);
  }
  if (const StateTree* preprocessing = fields.find("preprocessing")) {
    record.preprocessing = preprocessing_of(*preprocessing, source);
  }
  if (!has_all_categories(record)) fields.fail(categories_text(record));
  fields.check_all_known();
  return record;
}

std::optional<WeightsRecord> find_weights_record(const std::map<std::string, std::string>& metadata,
                                                 std::string_view source) {
  const auto found = metadata.find(std::string(kWeightsRecordKey));
  if (found == metadata.end()) return std::nullopt;
  return parse_weights_record(found->second, source);
}

}  // namespace brigade::models
