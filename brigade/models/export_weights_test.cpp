#include "brigade/models/export_weights.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/models/inception_v3.h"
#include "brigade/models/resnet.h"
#include "brigade/models/testing/pattern_weights.h"
#include "brigade/models/torchvision_names.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::models {
namespace {

using checkpoint::NamedTensor;
using variables::Variable;

/// A narrow Inception v3 with the pattern's weights.
class SmallInception {
 public:
  explicit SmallInception(bool has_gamma = true, bool has_head = true)
      : opened_(graph_.as_default()) {
    const auto defaults =
        layers::arg_scope(inception_v3_arg_scope({.batch_norm_scale = has_gamma}));
    inception_v3(at::zeros({0, 3, 299, 299}), {.num_classes = 5,
                                               .mode = variables::Mode::kEvaluation,
                                               .min_depth = 1,
                                               .depth_multiplier = 1e-2,
                                               .create_aux_logits = has_head});
    for (const Variable& each : variables()) {
      each.assign(pattern_weights(each.name(), each.shape()));
    }
  }
  std::vector<Variable> variables() const { return variables::global_variables(); }
  void clear() const {
    for (const Variable& each : variables()) each.assign(at::zeros(each.shape()));
  }
  bool has_pattern() const {
    for (const Variable& each : variables()) {
      if (!at::equal(each.read(), pattern_weights(each.name(), each.shape()))) return false;
    }
    return true;
  }

 private:
  variables::Graph graph_;
  decltype(graph_.as_default()) opened_;
};

WeightsRecord record() {
  return {.model = "inception_v3",
          .options = {.classes = 5, .original = Original::kTorchvision},
          .preprocessing = Preprocessing{.resize = 342, .crop = {299, 299}},
          .categories = {"a", "b", "c", "d", "e"}};
}

struct Refused {
  ErrorCode code = ErrorCode::kInternal;
  std::string message = "(nothing was thrown)";
};
template <class Call>
Refused refused(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

class ExportWeights : public ::testing::Test {
 protected:
  std::map<std::string, at::Tensor> tensors_at(const io::Path& path) const {
    std::map<std::string, at::Tensor> result;
    for (const auto& [name, tensor] : checkpoint::read_safetensors(*files_, path).tensors) {
      result.emplace(name, tensor);
    }
    return result;
  }
  ImportedWeights import_to(const SmallInception& model, const io::Path& path,
                            const ImportOptions& options = {}) const {
    return import_weights(files_, path, model.variables(), options);
  }
  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
};

/// "name rank dtype" of each, in lines.
std::string forms_of(const std::map<std::string, at::Tensor>& tensors) {
  std::string lines;
  for (const auto& [name, tensor] : tensors) {
    lines += lines.empty() ? "" : "\n";
    lines += name + " " + std::to_string(tensor.dim()) +
             (tensor.scalar_type() == at::kLong ? " int64" : " float32");
  }
  return lines;
}

// The hashes are those of state dicts of torchvision 0.26: pattern_weights._hash("\n".join(
// f"{name} {t.dim()} {str(t.dtype)[6:]}" for name, t in sorted(model.state_dict().items()))).
TEST_F(ExportWeights, HasTheNamesRanksAndDtypesOfTorchvisionsStateDict) {
  const SmallInception model;
  export_weights(*files_, "/w", model.variables(), record(), WeightsNames::kTorchvision);
  EXPECT_EQ(pattern_internal::hash(forms_of(tensors_at("/w"))), 3057704512291491667U);
}

TEST_F(ExportWeights, HasThoseOfAResNetWhoseLastLayerIsDenseHereToo) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  resnet(at::zeros({0, 3, 64, 64}), {.depth = 18, .num_classes = 5, .depth_multiplier = 1.0 / 16});
  const std::vector<Variable> variables = variables::global_variables();
  export_weights(*files_, "/w", variables, {.model = "resnet18"}, WeightsNames::kTorchvision);
  EXPECT_EQ(pattern_internal::hash(forms_of(tensors_at("/w"))), 6261428569888127366U);
  const auto imported = import_weights(files_, "/w", variables);
  EXPECT_EQ(imported.report.restored.size(), variables.size());
}

TEST_F(ExportWeights, BothNamesComeBackWithTheRecord) {
  const SmallInception model;
  for (const WeightsNames names : {WeightsNames::kBrigade, WeightsNames::kTorchvision}) {
    export_weights(*files_, "/w", model.variables(), record(), names);
    model.clear();
    const ImportedWeights imported = import_to(model, "/w");
    EXPECT_TRUE(model.has_pattern());
    EXPECT_EQ(imported.report.restored.size(), model.variables().size());
    EXPECT_TRUE(imported.report.unused_in_checkpoint.empty());
    ASSERT_TRUE(imported.record.has_value());
    EXPECT_EQ(imported.record->model, "inception_v3");
    EXPECT_EQ(imported.record->options.original, Original::kTorchvision);
    EXPECT_EQ(imported.record->preprocessing->resize, 342);
    EXPECT_EQ(imported.record->categories, record().categories);
  }
  EXPECT_EQ(tensors_at("/w").at("fc.weight").dim(), 2);
}

TEST_F(ExportWeights, AFileOfTorchvisionItselfNeedsTheNameOfTheModel) {
  const SmallInception model;
  std::vector<NamedTensor> weights;
  for (const Variable& each : model.variables()) weights.push_back({each.name(), each.read()});
  checkpoint::save_safetensors(*files_, "/theirs", to_torchvision("inception_v3", weights));
  model.clear();
  const ImportedWeights imported =
      import_to(model, "/theirs", {.model = "inception_v3", .names = WeightsNames::kTorchvision});
  EXPECT_TRUE(model.has_pattern());
  EXPECT_FALSE(imported.record.has_value());
  EXPECT_EQ(refused([&] { import_to(model, "/theirs"); }).code, ErrorCode::kNotFound)
      << "names are not guessed";
}

TEST_F(ExportWeights, NamesAreGuessedByThoseThatMostTensorsHave) {
  const SmallInception model;
  std::vector<NamedTensor> weights;
  for (const Variable& each : model.variables()) weights.push_back({each.name(), each.read()});
  const std::vector<NamedTensor> theirs = to_torchvision("inception_v3", weights);
  EXPECT_EQ(names_in({.tensors = theirs}, "inception_v3"), WeightsNames::kTorchvision);
  EXPECT_EQ(names_in({.tensors = weights}, "inception_v3"), WeightsNames::kBrigade);
  EXPECT_EQ(names_in({.tensors = theirs}, "mlp"), WeightsNames::kBrigade);
  EXPECT_EQ(names_in({.tensors = {}}, "inception_v3"), WeightsNames::kBrigade);
  export_weights(*files_, "/w", model.variables(), record(), WeightsNames::kTorchvision);
  EXPECT_EQ(names_in(checkpoint::read_weights_file(files_, "/w"), "mlp"),
            WeightsNames::kTorchvision)
      << "the metadata says so";
}

TEST_F(ExportWeights, BatchNormWithoutGammaComputesTheSameWithOnes) {
  const SmallInception without_gamma(/*has_gamma=*/false);
  export_weights(*files_, "/w", without_gamma.variables(), record(), WeightsNames::kTorchvision);
  const auto tensors = tensors_at("/w");
  const at::Tensor& gamma = tensors.at("Mixed_5b.branch1x1.bn.weight");
  EXPECT_TRUE(at::equal(gamma, at::ones(gamma.sizes())));
  EXPECT_EQ(tensors.at("Mixed_5b.branch1x1.bn.num_batches_tracked").item<std::int64_t>(), 0);
  without_gamma.clear();
  import_to(without_gamma, "/w");
  EXPECT_TRUE(without_gamma.has_pattern());
}

TEST_F(ExportWeights, GammasThatTheModelLacksAreRefusedUnlessTheyAreOnes) {
  {
    const SmallInception model;
    export_weights(*files_, "/w", model.variables(), record(), WeightsNames::kTorchvision);
  }
  const SmallInception without_gamma(/*has_gamma=*/false);
  without_gamma.clear();
  const Refused error = refused([&] { import_to(without_gamma, "/w"); });
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message.find("bn.weight"), std::string::npos) << error.message;
  EXPECT_FALSE(without_gamma.has_pattern());
}

TEST_F(ExportWeights, AModelWithoutTheAuxiliaryHeadLeavesItOut) {
  {
    const SmallInception model;
    export_weights(*files_, "/w", model.variables(), record(), WeightsNames::kTorchvision);
  }
  const SmallInception headless(/*has_gamma=*/true, /*has_head=*/false);
  headless.clear();
  const ImportedWeights imported = import_to(headless, "/w");
  EXPECT_TRUE(headless.has_pattern());
  EXPECT_EQ(imported.report.unused_in_checkpoint.size(), 12u);
}

TEST_F(ExportWeights, RefusesWeightsOfOtherModels) {
  const std::vector<NamedTensor> other = {{"fc1/weights", at::ones({2})},
                                          {"global_step", at::zeros({}, at::kLong)}};
  const Refused unknown = refused([&] {
    export_weights(*files_, "/w", other, {.model = "inception_v3"}, WeightsNames::kTorchvision);
  });
  EXPECT_EQ(unknown.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(unknown.message.find("has no 'fc1/weights'"), std::string::npos) << unknown.message;
  EXPECT_EQ(unknown.message.find("global_step"), std::string::npos);
  EXPECT_FALSE(files_->exists("/w"));
  EXPECT_EQ(refused([&] {
              export_weights(*files_, "/w", other, {.model = "mlp"}, WeightsNames::kTorchvision);
            }).code,
            ErrorCode::kInvalidArgument)
      << "torchvision has no such model";

  export_weights(*files_, "/w", other, {.model = "mlp"});
  const SmallInception model;
  const Refused named = refused([&] { import_to(model, "/w", {.model = "inception_v3"}); });
  EXPECT_EQ(named.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(named.message.find("'mlp'"), std::string::npos) << named.message;
}

TEST_F(ExportWeights, OptionsOfRestoreCount) {
  const SmallInception model;
  export_weights(*files_, "/w", model.variables(), record(), WeightsNames::kTorchvision);
  model.clear();
  const ImportedWeights imported =
      import_to(model, "/w", {.restore = {.exclude = {"InceptionV3/Logits"}}});
  EXPECT_EQ(imported.report.restored.size(), model.variables().size() - 2);
  for (const Variable& each : model.variables()) {
    const bool is_new = each.name().starts_with("InceptionV3/Logits");
    EXPECT_EQ(each.read().eq(0).all().item<bool>(), is_new) << each.name();
  }
}

}  // namespace
}  // namespace brigade::models
