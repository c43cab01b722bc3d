#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/brigade/commands.h"
#include "apps/brigade/data_flags.h"
#include "apps/brigade/evaluation_hook.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/model_flags.h"
#include "apps/brigade/report.h"
#include "apps/brigade/run_directory.h"
#include "apps/brigade/strategy_flags.h"
#include "apps/brigade/weights.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/weights_hash.h"
#include "brigade/tuning/tuning_report.h"

namespace brigade::command {
namespace {

constexpr const char* kEvaluateExamples = R"(Examples:
  brigade evaluate --model-dir /tmp/run
      the model saved there, on the test split of the data that it was trained on
  brigade evaluate --model-dir /tmp/run --strategy mirrored --json
      the same on every core, for programs
  brigade evaluate --model-dir /tmp/run --dataset mnist --data-dir /data/mnist
      on other data)";

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

/// Fills in flags of model and data that the command line of `parser` does not set, from the
/// configuration of a run.json. If the model differs from the run's, no flag of the model is filled
/// in; if the dataset differs, none of the data. A null `configuration` fills in nothing.
void fill_in(const Json& configuration, const CLI::App& parser, ModelFlags& model,
             DataFlags& data) {
  if (!configuration.is_object()) return;
  fill_in_model(configuration, parser, model);
  fill_in_data(configuration, parser, data);
}

class EvaluateCommand final : public Command {
 public:
  explicit EvaluateCommand(CLI::App& parent)
      : Command(parent, "evaluate", "Evaluate saved weights on the test split") {
    parser_
        .add_option("--model-dir", model_dir_,
                    "Folder with weights.safetensors; what its run.json says of the model and the "
                    "data counts where no flag says it")
        ->required();
    output_.add_to(parser_);
    model_.add_to(parser_);
    data_.add_to(parser_);
    strategy_.add_to(parser_);
    batch_.add_to(parser_);
    add_hash_mismatch(parser_, allow_changed_weights_);
    parser_.footer(kEvaluateExamples);
  }

  int run() override {
    fill_in(set_up([&] { return directory().configuration(); }), parser_, model_, data_);
    model_.options();
    data_.check();
    batch_.check();
    const auto weights =
        set_up([&] { return directory().read_weights(hash_mismatch(allow_changed_weights_)); });
    const auto strategy = strategy_.make();
    const Model model = model_.create(*strategy);
    set_up([&] {
      assign_weights(model.variables(), weights, directory().weights_path().string(), model_.model);
    });
    const std::int64_t batch = batch_.global_size(strategy->num_replicas_in_sync());
    const auto batches = set_up([&] { return data_.load(input::Split::kTest).batch(batch); });
    const Interrupt interrupt;
    const auto begin = std::chrono::steady_clock::now();
    const auto result = evaluate_unless_interrupted(*strategy, model, batches, interrupt);
    if (!result) return exit_code_after(*interrupt.received());
    const double seconds = seconds_between(begin, std::chrono::steady_clock::now());
    report(*strategy, *result, seconds, weights_of(model.variables()));
    return kDone;
  }

 private:
  RunDirectory directory() const { return {io::posix_file_system(), model_dir_}; }

  void report(const distribute::Strategy& strategy, const train::EvaluationResult& result,
              double seconds, std::span<const checkpoint::NamedTensor> weights) const {
    const std::vector<NotFinite> broken = not_finite(weights);
    if (!broken.empty()) {
      std::cerr << base::str_cat(
          "brigade: warning: ", broken.front().count, " weights of ", broken.front().name,
          broken.size() > 1 ? base::str_cat(", and some of ", broken.size() - 1, " others,") : "",
          " are not finite: the training has diverged\n");
    }
    Json json;
    json["model"] = model_.model;
    json["dataset"] = data_.dataset;
    json["strategy"] = strategy.name();
    json["replicas"] = strategy.num_replicas_in_sync();
    json["devices"] = device_names(strategy);
    json["examples"] = result.examples;
    json["eval_accuracy"] = result.accuracy;
    json["eval_loss"] = result.loss;
    json["seconds"] = seconds;
    json["weights_sha256"] = checkpoint::weights_sha256(weights);
    json["not_finite"] = Json::object();
    for (const NotFinite& each : broken) json["not_finite"][each.name] = each.count;
    json["tuning"] = tuning::report().describe();
    json["model_dir"] = model_dir_;
    output_.print(json, base::str_cat(evaluation_text(result.accuracy, result.loss),
                                      "examples         ", result.examples, "\n"));
  }

  ModelFlags model_;
  DataFlags data_;
  StrategyFlags strategy_;
  BatchFlags batch_;
  std::string model_dir_;
  OutputFlag output_;
  bool allow_changed_weights_ = false;
};

}  // namespace

std::unique_ptr<Command> make_evaluate_command(CLI::App& parent) {
  return std::make_unique<EvaluateCommand>(parent);
}

}  // namespace brigade::command
