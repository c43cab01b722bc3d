#include "apps/brigade/model_flags.h"

#include <ATen/ops/zeros.h>

#include <CLI/CLI.hpp>

#include "apps/brigade/exit_code.h"
#include "apps/brigade/function_classifier.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

std::vector<std::int64_t> parse_widths(const std::string& text) {
  std::vector<std::int64_t> widths;
  for (const std::string& part : base::split(text, ',')) {
    const auto width = base::parse_int(base::trim(part));
    if (!width || *width < 1) {
      throw UsageError(base::str_cat("--hidden is ", base::quoted(text),
                                     "; give widths of 1 or more, for example 64,64,64"));
    }
    widths.push_back(*width);
  }
  return widths;
}

}  // namespace

void ModelFlags::add_to(CLI::App& app) {
  const std::string names = base::join(models::model_names(), ", ");
  app.add_option("--model", model, base::str_cat("The model: ", names))
      ->capture_default_str()
      ->group("Model");
  app.add_option("--hidden", hidden, "Widths of the hidden layers (mlp)")
      ->capture_default_str()
      ->group("Model");
  app.add_option("--dropout", dropout, "Dropout rate of the hidden layer in training (mnist_cnn)")
      ->capture_default_str()
      ->group("Model");
}

models::ModelOptions ModelFlags::options() const {
  check_choice("model", model, models::model_names());
  if (!(dropout >= 0.0 && dropout < 1.0)) {
    throw UsageError(base::str_cat("--dropout is ", dropout, "; it must be in [0, 1)"));
  }
  if (dropout > 0.0 && model != "mnist_cnn") {
    throw UsageError(base::str_cat("model ", model, " has no dropout; leave out --dropout"));
  }
  return {.hidden = parse_widths(hidden), .dropout = dropout};
}

distribute::Replicated<models::Classifier> ModelFlags::create(
    distribute::Strategy& strategy) const {
  const models::ModelOptions chosen = options();
  if (models::is_model_function(model)) {
    return build_classifier(strategy, models::make_model_function(model, chosen),
                            at::zeros({1, 1, 28, 28}));
  }
  return strategy.create_from([&] { return models::make_model(model, chosen); });
}

}  // namespace brigade::command
