#include "apps/brigade/stored_flags.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

// Sets `value` to the stored one of `key`, unless its flag is given, or the stored one is null or
// missing as in the run.json of an older version.
template <class Stored, class Value>
void fill_in(const Json& stored, const CLI::App& parser, const char* key, const char* flag,
             Value& value) {
  const auto found = stored.find(key);
  if (parser.get_option(flag)->count() > 0 || found == stored.end() || found->is_null()) return;
  value = found->get<Stored>();
}

void fill_in_model(const Json& stored, const CLI::App& parser, ModelFlags& model) {
  fill_in<std::string>(stored, parser, "model", "--model", model.model);
  if (model.model != stored.value("model", "")) return;
  std::optional<std::vector<std::int64_t>> hidden;
  fill_in<std::vector<std::int64_t>>(stored, parser, "hidden", "--hidden", hidden);
  if (hidden) model.hidden = base::join(*hidden, ",");
  fill_in<double>(stored, parser, "dropout", "--dropout", model.dropout);
  if (model.model != "inception_v3") return;
  fill_in<double>(stored, parser, "aux_weight", "--aux-weight", model.aux_weight);
  fill_in<std::string>(stored, parser, "original", "--original", model.original);
}

void fill_in_data(const Json& stored, const CLI::App& parser, DataFlags& data) {
  fill_in<std::string>(stored, parser, "dataset", "--dataset", data.dataset);
  if (data.dataset != stored.value("dataset", "")) return;
  fill_in<std::string>(stored, parser, "data_dir", "--data-dir", data.data_dir);
  // Where the examples of a synthetic test split begin.
  fill_in<std::int64_t>(stored, parser, "train_examples", "--train-examples", data.train_examples);
  fill_in<std::int64_t>(stored, parser, "image_size", "--image-size", data.image_size);
  fill_in<std::int64_t>(stored, parser, "resize", "--resize", data.resize);
}

}  // namespace

void fill_in(const Json& configuration, const CLI::App& parser, ModelFlags& model,
             DataFlags& data) {
  if (!configuration.is_object()) return;
  fill_in_model(configuration, parser, model);
  fill_in_data(configuration, parser, data);
}

}  // namespace brigade::command
