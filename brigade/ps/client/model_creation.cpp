#include "brigade/ps/client/model_creation.h"

#include <set>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/optim/rule_config.h"
#include "brigade/ps/store/record_parts.h"
#include "brigade/ps/store/store_keys.h"

namespace brigade::ps {

namespace {

/// Of a variable in a record; at most twice as much as its text takes.
std::uint64_t bytes_in_record(const Creation& variable) {
  constexpr std::uint64_t kFields = 256;
  return variable.value.nbytes() + 6 * variable.name.size() + kFields +
         32 * static_cast<std::uint64_t>(variable.value.dim());
}

io::StateTree tree_or_null(const std::optional<double>& value) {
  return value ? io::StateTree(*value) : io::StateTree();
}

/// Records that were written before there were parameter groups have no lists of them.
std::optional<double> rate_in(const io::StateTree& header, std::string_view key, std::size_t i) {
  if (!header.has(key) || header.at(key, i).is_null()) return std::nullopt;
  return header.as_double(key, i);
}

void check_rate(const Creation& variable, std::string_view what,
                const std::optional<double>& value) {
  check_argument(!value || *value >= 0, "Variable ", base::quoted(variable.name), " has the ", what,
                 " ", value.value_or(0), ", which must be at least 0.");
}

}  // namespace

void check_creation(std::span<const Creation> variables, std::uint64_t max_record_bytes) {
  std::set<std::string_view> names;
  for (const Creation& each : variables) {
    const std::string name = base::quoted(each.name);
    check_recordable({.name = each.name, .tensor = each.value});
    check_argument(names.insert(each.name).second, "Variable ", name, " is created twice.");
    check_argument(!each.is_trainable || each.value.is_floating_point(), "Variable ", name,
                   " is trainable and has the dtype ", c10::toString(each.value.scalar_type()),
                   ": trainable variables are of floating point.");
    check_rate(each, "learning rate", each.learning_rate);
    check_rate(each, "weight decay", each.weight_decay);
    check_argument(bytes_in_record(each) <= max_record_bytes, "Variable ", name, " has ",
                   each.value.nbytes(), " bytes, and a server takes variables of up to ",
                   max_record_bytes, " bytes: divide it into several variables.");
  }
}

CreationRecords::CreationRecords(std::span<const Creation> variables, const optim::UpdateRule& rule,
                                 const io::StateTree& job, std::uint64_t max_record_bytes)
    : variables_(variables), rule_(rule), job_(job) {
  std::vector<std::uint64_t> bytes;
  for (const Creation& each : variables) bytes.push_back(bytes_in_record(each));
  const auto parts = divide_by_bytes(bytes, part_bytes(max_record_bytes));
  for (const RecordPart& part : parts) ends_.push_back(part.end);
  // A small model is one record. Otherwise the last one has no variables: they might not fit beside
  // rule and job.
  variable_parts_ = parts.size() == 1 ? 0 : parts.size();
}

UpdateRecord CreationRecords::record(std::size_t index) const {
  const bool is_last = index == variable_parts_;
  UpdateRecord made;
  made.header[keys::kKind] = is_last ? keys::kCreate : keys::kVariables;
  for (const std::string_view list : {keys::kTrainable, keys::kLearningRates, keys::kWeightDecays})
    made.header[list] = io::StateTree::list();
  if (is_last) {
    made.header[keys::kParts] = variable_parts_;
    made.header[keys::kRule] = rule_.config();
    made.header[keys::kJob] = job_;
  } else {
    made.header[keys::kPart] = index;
  }
  if (index < ends_.size()) {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    for (const Creation& each : variables_.subspan(begin, ends_[index] - begin)) add(each, made);
  }
  return made;
}

void CreationRecords::add(const Creation& variable, UpdateRecord& record) const {
  record.header[keys::kTrainable].push_back(variable.is_trainable);
  record.header[keys::kLearningRates].push_back(tree_or_null(variable.learning_rate));
  record.header[keys::kWeightDecays].push_back(tree_or_null(variable.weight_decay));
  record.tensors.push_back({variable.name, variable.value});
}

std::optional<ServerModel> ModelCreation::add(const UpdateRecord& record) {
  const bool is_last = record.header.as_string(keys::kKind) == keys::kCreate;
  const std::string_view key = is_last ? keys::kParts : keys::kPart;
  const std::int64_t parts = record.header.has(key) ? record.header.as_int64(key) : 0;
  if (parts == 0) *this = {};
  if (parts != parts_)
    throw Error(ErrorCode::kDataLoss, "A server's log has ", parts_,
                " records of a model's variables, and ", parts, " were expected.");
  add_variables(record);
  ++parts_;
  if (!is_last) return std::nullopt;
  ServerModel model{
      .rule = optim::rule_from_config(record.header.at(keys::kRule)), .job = {}, .parameters = {}};
  if (record.header.has(keys::kJob)) model.job = record.header.at(keys::kJob);
  for (Variable& each : variables_)
    model.parameters.emplace(
        each.name, std::make_unique<Parameter>(Parameter::State{.value = each.value, .slots = {}},
                                               each.settings, *model.rule));
  *this = {};
  return model;
}

void ModelCreation::add_variables(const UpdateRecord& record) {
  for (std::size_t i = 0; i < record.tensors.size(); ++i)
    variables_.push_back(
        {.name = record.tensors[i].name,
         .value = record.tensors[i].tensor,
         .settings = {.is_trainable = record.header.as_bool(keys::kTrainable, i),
                      .learning_rate = rate_in(record.header, keys::kLearningRates, i),
                      .weight_decay = rate_in(record.header, keys::kWeightDecays, i)}});
}

}  // namespace brigade::ps
