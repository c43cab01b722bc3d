#include "apps/brigade/stored_flags.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

// The stored value of `key`, unless its flag is given, or the value is null or missing as in the
// run.json of an older version.
const Json* open_value(const Json& stored, const CLI::App& parser, const char* key,
                       const char* flag) {
  if (parser.get_option(flag)->count() > 0) return nullptr;
  const auto found = stored.find(key);
  return found == stored.end() || found->is_null() ? nullptr : &*found;
}

void fill_in_model(const Json& stored, const CLI::App& parser, ModelFlags& model) {
  if (const Json* value = open_value(stored, parser, "model", "--model")) {
    model.model = value->get<std::string>();
  }
  if (model.model != stored.value("model", "")) return;
  if (const Json* value = open_value(stored, parser, "hidden", "--hidden")) {
    model.hidden = base::join(value->get<std::vector<std::int64_t>>(), ",");
  }
  if (const Json* value = open_value(stored, parser, "dropout", "--dropout")) {
    model.dropout = value->get<double>();
  }
}

void fill_in_data(const Json& stored, const CLI::App& parser, DataFlags& data) {
  if (const Json* value = open_value(stored, parser, "dataset", "--dataset")) {
    data.dataset = value->get<std::string>();
  }
  if (data.dataset != stored.value("dataset", "")) return;
  if (const Json* value = open_value(stored, parser, "data_dir", "--data-dir")) {
    data.data_dir = value->get<std::string>();
  }
  // Where the examples of a synthetic test split begin.
  if (const Json* value = open_value(stored, parser, "train_examples", "--train-examples")) {
    data.train_examples = value->get<std::int64_t>();
  }
}

}  // namespace

void fill_in(const Json& configuration, const CLI::App& parser, ModelFlags& model,
             DataFlags& data) {
  if (!configuration.is_object()) return;
  fill_in_model(configuration, parser, model);
  fill_in_data(configuration, parser, data);
}

}  // namespace brigade::command
