#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/brigade/commands.h"
#include "apps/brigade/data_flags.h"
#include "apps/brigade/device_normalization.h"
#include "apps/brigade/evaluation_hook.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/initial_weights.h"
#include "apps/brigade/model_flags.h"
#include "apps/brigade/report.h"
#include "apps/brigade/run_directory.h"
#include "apps/brigade/stored_flags.h"
#include "apps/brigade/strategy_flags.h"
#include "apps/brigade/weights.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/inspect.h"
#include "brigade/tuning/tuning_report.h"

namespace brigade::command {
namespace {

constexpr const char* kEvaluateExamples = R"(Examples:
  brigade evaluate --model-dir /tmp/run
      the model saved there, on the test split of the data that it was trained on
  brigade evaluate --model-dir /tmp/run --strategy mirrored --json
      the same on every core, for programs
  brigade evaluate --model-dir /tmp/run --dataset mnist --data-dir /data/mnist
      on other data
  brigade evaluate --init-from resnet50.pth --model resnet50 --dataset image_folder --data-dir /data/imagenet
      weights that another program saved, such as torchvision's)";

std::string dimensions_text(at::IntArrayRef shape) {
  return base::str_cat("[", base::join(shape, ", "), "]");
}

// The shape, and the dtype where that is what differs.
std::string form_text(at::IntArrayRef shape, at::ScalarType dtype, bool with_dtype) {
  return with_dtype ? base::str_cat(at::toString(dtype), " ", dimensions_text(shape))
                    : dimensions_text(shape);
}

struct Differences {
  std::vector<std::string> missing, unexpected, different;

  bool empty() const { return missing.empty() && unexpected.empty() && different.empty(); }
  std::string describe() const {
    std::vector<std::string> parts;
    const auto add = [&parts](std::string_view what, const std::vector<std::string>& names) {
      if (!names.empty()) parts.push_back(base::str_cat(what, ": ", base::join(names, ", ")));
    };
    add("missing", missing);
    add("unexpected", unexpected);
    add("different", different);
    return base::join(parts, "; ");
  }
};

Differences compare(std::span<const variables::Variable> variables,
                    const checkpoint::SafetensorsFile& weights) {
  std::map<std::string, const at::Tensor*> stored;
  for (const auto& named : weights.tensors) stored[named.name] = &named.tensor;
  Differences found;
  for (const variables::Variable& variable : variables) {
    const auto match = stored.find(variable.name());
    if (match == stored.end()) {
      found.missing.push_back(
          base::str_cat(variable.name(), " ", dimensions_text(variable.shape())));
      continue;
    }
    const at::Tensor& tensor = *match->second;
    const bool same_dtype = tensor.scalar_type() == variable.dtype();
    if (!same_dtype || tensor.sizes() != variable.shape()) {
      found.different.push_back(base::str_cat(
          variable.name(), " is ", form_text(tensor.sizes(), tensor.scalar_type(), !same_dtype),
          ", expected ", form_text(variable.shape(), variable.dtype(), !same_dtype)));
    }
    stored.erase(match);
  }
  for (const auto& [name, tensor] : stored) {
    found.unexpected.push_back(base::str_cat(name, " ", dimensions_text(tensor->sizes())));
  }
  return found;
}

/// Gives the variables the values in `weights`. Throws kInvalidArgument, listing the names and
/// shapes that differ, unless names, shapes and dtypes are the same; then nothing is changed.
/// `source` and `model` say in the message whose weights they are and for what.
void assign_weights(std::span<const variables::Variable> variables,
                    const checkpoint::SafetensorsFile& weights, std::string_view source,
                    std::string_view model) {
  const Differences differences = compare(variables, weights);
  if (!differences.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the weights in ", source, " do not fit model ", model,
                ": ", differences.describe(), "; give --model and its flags as in the training");
  }
  for (const variables::Variable& variable : variables) {
    variable.assign(weights.at(variable.name()));
  }
}

/// Elements of a variable that are NaN or infinite.
struct NotFinite {
  std::string name;
  std::uint64_t count = 0;
};

std::vector<NotFinite> not_finite(std::span<const checkpoint::NamedTensor> weights) {
  std::vector<NotFinite> found;
  for (const checkpoint::NamedTensor& each : weights) {
    if (const auto count = checkpoint::count_not_finite(each.tensor)) {
      found.push_back({.name = each.name, .count = count});
    }
  }
  return found;
}

class EvaluateCommand final : public Command {
 public:
  explicit EvaluateCommand(CLI::App& parent)
      : Command(parent, "evaluate", "Evaluate saved weights on the test split") {
    parser_.add_option(
        "--model-dir", model_dir_,
        "Folder with weights.safetensors; what its run.json says of the model and the "
        "data counts where no flag says it");
    parser_
        .add_option("--init-from", init_from_,
                    "Instead of --model-dir: a checkpoint, a safetensors file, or one saved by "
                    "PyTorch, also with torchvision's names. --model says of which model")
        ->option_text("PATH");
    output_.add_to(parser_);
    model_.add_to(parser_);
    data_.add_to(parser_);
    data_.add_normalize_to(parser_);
    strategy_.add_to(parser_);
    batch_.add_to(parser_);
    add_hash_mismatch(parser_, allow_changed_weights_);
    parser_.footer(kEvaluateExamples);
  }

  int run() override {
    if (model_dir_.empty() == !init_from_.has_value())
      throw UsageError("give --model-dir, a model directory, or --init-from, other weights");
    if (!init_from_)
      fill_in(set_up([&] { return directory().configuration(); }), parser_, model_, data_);
    model_.options();
    data_.check();
    batch_.check();
    if (init_from_) return evaluate_other_weights();
    const auto weights =
        set_up([&] { return directory().read_weights(hash_mismatch(allow_changed_weights_)); });
    return evaluate([&](const Model& model) {
      assign_weights(model.variables(), weights, directory().weights_path().string(), model_.model);
    });
  }

 private:
  RunDirectory directory() const { return {io::posix_file_system(), model_dir_}; }

  int evaluate_other_weights() {
    const InitialWeights weights =
        set_up([&] { return InitialWeights(*init_from_, hash_mismatch(allow_changed_weights_)); });
    model_.set_original(set_up([&] { return weights.original(model_.model); }));
    model_.exclude_auxiliary_logits();
    return evaluate([&](const Model& model) { weights.assign(model.variables(), model_.model); });
  }

  int evaluate(const std::function<void(const Model&)>& assign) const {
    strategy_.check_not_only_training("evaluate");
    const auto strategy = strategy_.make();
    ImageInput image = set_up([&] { return data_.image_input(model_.model); });
    image.output = image_output(data_, *strategy);
    const Model model = model_.create(*strategy, image);
    set_up([&] { assign(model); });
    const std::int64_t batch = batch_.global_size(strategy->num_replicas_in_sync());
    const auto batches =
        set_up([&] { return data_.load(input::Split::kTest, image).batch(batch); });
    const Interrupt interrupt;
    const auto begin = std::chrono::steady_clock::now();
    const auto result = evaluate_unless_interrupted(
        *strategy, model, batches, interrupt,
        {.compile = strategy_.compile, .map_on_replica = make_normalizer(data_, image)});
    if (!result) return exit_code_after(*interrupt.received());
    const double seconds = seconds_between(begin, std::chrono::steady_clock::now());
    report(*strategy, *result, seconds, weights_of(model.variables()));
    return kDone;
  }

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
    json["eval_top_5_accuracy"] = result.top_5_accuracy;
    json["eval_loss"] = result.loss;
    json["seconds"] = seconds;
    json["weights_sha256"] = checkpoint::weights_sha256(weights);
    json["not_finite"] = Json::object();
    for (const NotFinite& each : broken) json["not_finite"][each.name] = each.count;
    json["tuning"] = tuning::report().describe();
    json["model_dir"] = init_from_ ? Json(nullptr) : Json(model_dir_);
    json["init_from"] = init_from_ ? Json(*init_from_) : Json(nullptr);
    output_.print(json, base::str_cat(evaluation_text(result.accuracy, result.loss),
                                      "examples         ", result.examples, "\n"));
  }

  ModelFlags model_;
  DataFlags data_;
  StrategyFlags strategy_;
  BatchFlags batch_;
  std::string model_dir_;
  std::optional<std::string> init_from_;
  OutputFlag output_;
  bool allow_changed_weights_ = false;
};

}  // namespace

std::unique_ptr<Command> make_evaluate_command(CLI::App& parent) {
  return std::make_unique<EvaluateCommand>(parent);
}

}  // namespace brigade::command
