#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/brigade/commands.h"
#include "apps/brigade/data_flags.h"
#include "apps/brigade/evaluation_hook.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "apps/brigade/initial_weights.h"
#include "apps/brigade/model_flags.h"
#include "apps/brigade/report.h"
#include "apps/brigade/run_directory.h"
#include "apps/brigade/stored_flags.h"
#include "apps/brigade/strategy_flags.h"
#include "apps/brigade/weights.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/models/weights_record.h"
#include "brigade/train/evaluation/feature_extraction.h"

namespace brigade::command {
namespace {

constexpr const char* kExtractExamples = R"(Examples:
  brigade extract --model inception_v3 --init-from inception_v3.pth --dataset image_folder --data-dir /data/pets \
      --endpoint PreLogits --global-pool --output pets.safetensors
      2048 numbers for each image in /data/pets/train, by torchvision's weights
  brigade extract --init-from /tmp/run --endpoint fc1,fc2 --split test --output test.safetensors --json
      two layers of a trained model, for the test split of the data that it was trained on)";

constexpr const char* kAuxLogits = "AuxLogits";

std::string shape_of(const std::vector<std::int64_t>& shape) {
  return base::str_cat("[", base::join(shape, ", "), "]");
}

/// What the images of a folder went through; nothing for other data, which is read as it is.
std::optional<models::Preprocessing> preprocessing_of(const DataFlags& data,
                                                      const ImageInput& image) {
  if (!data.has_files()) return std::nullopt;
  const auto channels = static_cast<std::ptrdiff_t>(image.shape[0]);
  return models::Preprocessing{
      .resize = image.resize,
      .crop = {image.shape[1], image.shape[2]},
      .mean = {image.mean.begin(), image.mean.begin() + channels},
      .deviation = {image.deviation.begin(), image.deviation.begin() + channels}};
}

class ExtractCommand final : public Command {
 public:
  explicit ExtractCommand(CLI::App& parent)
      : Command(parent, "extract",
                "Write what layers of a model compute for each example to a file") {
    FlagGroup group(parser_);
    group
        .add("--init-from", init_from_,
             "The weights: a model directory (what its run.json says of the model and the data "
             "counts where no flag says it), a checkpoint, a safetensors file, or one saved by "
             "PyTorch, also with torchvision's names")
        ->option_text("PATH")
        ->required();
    group
        .add("--endpoint", end_points_,
             "The end points to write, separated by commas. An unknown one is answered with the "
             "names of all")
        ->multi_option_policy(CLI::MultiOptionPolicy::Join)
        ->delimiter(',')
        ->option_text("NAMES")
        ->required();
    group.add_switch("--global-pool", global_pool_,
                     "Write means over all positions, [N, C], of end points [N, C, H, W]");
    group.add("--split", split_, "Which examples: train or test");
    group
        .add("--output", output_path_, "The safetensors file to write; an existing one is replaced")
        ->option_text("FILE")
        ->required();
    output_.add_to(parser_);
    model_.add_to(parser_);
    data_.add_to(parser_);
    strategy_.add_to(parser_);
    batch_.add_to(parser_);
    add_hash_mismatch(parser_, allow_changed_weights_);
    parser_.footer(kExtractExamples);
  }

  int run() override {
    fill_in(set_up([&] { return stored_configuration(); }), parser_, model_, data_);
    check();
    const InitialWeights weights =
        set_up([&] { return InitialWeights(init_from_, hash_mismatch(allow_changed_weights_)); });
    strategy_.check_not_only_training("extract");
    const auto strategy = strategy_.make();
    const ImageInput image = set_up([&] { return data_.image_input(model_.model); });
    const models::ModelOptions options = set_up([&] { return model_options(weights, image); });
    const Model model = model_.create(*strategy, image, options);
    set_up([&] { weights.assign(model.variables(), model_.model); });
    const LoadedExamples loaded = set_up([&] {
      return data_.load_with_paths(split_ == "test" ? input::Split::kTest : input::Split::kTrain,
                                   image);
    });
    const std::string sha256 = checkpoint::weights_sha256(weights_of(model.variables()));
    const train::ExtractionOptions extraction{.path = output_path_,
                                              .end_points = options.end_points,
                                              .global_pool = global_pool_,
                                              .paths = loaded.paths,
                                              .metadata = metadata(options, image, sha256)};
    const Interrupt interrupt;
    const auto begin = std::chrono::steady_clock::now();
    const auto result = unless_interrupted(
        *strategy, loaded.examples.batch(batch_.global_size(strategy->num_replicas_in_sync())),
        interrupt, [&](const auto& batches) {
          return train::extract_features(*strategy, model, batches, extraction);
        });
    if (!result) return exit_code_after(*interrupt.received());
    const double seconds = seconds_between(begin, std::chrono::steady_clock::now());
    if (strategy->is_chief()) report(*strategy, *result, seconds, sha256);
    return kDone;
  }

 private:
  /// Of the run that the weights are of, if they are a model directory's.
  Json stored_configuration() const {
    const auto files = io::posix_file_system();
    if (!files->exists(io::Path(init_from_) / "run.json")) return nullptr;
    return RunDirectory(files, init_from_).configuration();
  }

  void check() {
    check_choice("value of --split", split_, {"train", "test"});
    end_point_names();
    if (!wants_auxiliary_logits()) model_.exclude_auxiliary_logits();
    model_.options();
    data_.check();
    batch_.check();
    const io::Path folder = std::filesystem::absolute(output_path_).parent_path();
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error))
      throw UsageError("--output ", base::quoted(output_path_), ": there is no folder ", folder);
    if (std::filesystem::is_directory(output_path_, error))
      throw UsageError("--output ", base::quoted(output_path_), " is a folder");
    if (std::filesystem::equivalent(output_path_, init_from_, error))
      throw UsageError("--output is the file of --init-from; give another one");
  }

  std::vector<std::string> end_point_names() const {
    std::vector<std::string> names;
    for (const std::string& part : base::split(end_points_, ',')) {
      names.emplace_back(base::trim(part));
      if (names.back().empty())
        throw UsageError("--endpoint is ", base::quoted(end_points_),
                         "; give names separated by commas");
    }
    return names;
  }

  bool wants_auxiliary_logits() const {
    const std::vector<std::string> names = end_point_names();
    return std::find(names.begin(), names.end(), kAuxLogits) != names.end();
  }

  /// Those of the weights: the data may have other classes.
  models::ModelOptions model_options(const InitialWeights& weights, const ImageInput& image) {
    model_.set_original(weights.original(model_.model));
    models::ModelOptions options = weights.fitting(model_.model, model_.options(image));
    options.end_points = end_point_names();
    return options;
  }

  std::map<std::string, std::string> metadata(const models::ModelOptions& options,
                                              const ImageInput& image,
                                              const std::string& sha256) const {
    const models::WeightsRecord record{
        .model = model_.model, .options = options, .preprocessing = preprocessing_of(data_, image)};
    return {{"format", "pt"},
            {"model", model_.model},
            {"weights", base::printable(init_from_)},
            {"model_weights_sha256", sha256},
            {"dataset", data_.dataset},
            {"split", split_},
            {std::string(models::kWeightsRecordKey), models::to_json(record)}};
  }

  void report(const distribute::Strategy& strategy, const train::ExtractionReport& result,
              double seconds, const std::string& sha256) const {
    Json json;
    json["model"] = model_.model;
    json["init_from"] = init_from_;
    json["dataset"] = data_.dataset;
    json["split"] = split_;
    json["strategy"] = strategy.name();
    json["replicas"] = strategy.num_replicas_in_sync();
    json["devices"] = device_names(strategy);
    json["examples"] = result.examples;
    json["global_pool"] = global_pool_;
    json["tensors"] = Json::object();
    std::string text = base::str_cat("examples         ", result.examples, "\n");
    for (const auto& each : result.tensors) {
      json["tensors"][each.name] = each.shape;
      text += base::str_cat(each.name, "  ", shape_of(each.shape), "\n");
    }
    json["seconds"] = seconds;
    json["examples_per_second"] = seconds > 0 ? static_cast<double>(result.examples) / seconds : 0;
    json["weights_sha256"] = sha256;
    json["output"] = output_path_;
    output_.print(json, text);
  }

  std::string init_from_;
  std::string end_points_;
  std::string output_path_;
  std::string split_ = "train";
  bool global_pool_ = false;
  ModelFlags model_;
  DataFlags data_;
  StrategyFlags strategy_;
  BatchFlags batch_;
  OutputFlag output_;
  bool allow_changed_weights_ = false;
};

}  // namespace

std::unique_ptr<Command> make_extract_command(CLI::App& parent) {
  return std::make_unique<ExtractCommand>(parent);
}

}  // namespace brigade::command
