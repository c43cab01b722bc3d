#include "brigade/models/torchvision_names.h"

#include <array>
#include <initializer_list>

#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"
#include "brigade/models/resnet.h"

namespace brigade::models {
namespace {

using Names = std::map<std::string, std::string>;

/// The name of a layer inside of a block: ours, and torchvision's.
struct LayerPair {
  const char* ours;
  const char* theirs;
};

/// A convolution without biases, with batch norm.
void add_convolution(Names& names, const std::string& ours, const std::string& convolution,
                     const std::string& batch_norm) {
  names[ours + "/weights"] = convolution + ".weight";
  names[ours + "/BatchNorm/gamma"] = batch_norm + ".weight";
  names[ours + "/BatchNorm/beta"] = batch_norm + ".bias";
  names[ours + "/BatchNorm/moving_mean"] = batch_norm + ".running_mean";
  names[ours + "/BatchNorm/moving_variance"] = batch_norm + ".running_var";
}

void add_convolution(Names& names, const std::string& ours, const std::string& theirs) {
  add_convolution(names, ours, theirs + ".conv", theirs + ".bn");
}

/// A linear layer there; here too, or a 1 x 1 convolution.
void add_classifier(Names& names, const std::string& ours, const std::string& theirs) {
  names[ours + "/weights"] = theirs + ".weight";
  names[ours + "/biases"] = theirs + ".bias";
}

void add_block(Names& names, const std::string& block, std::initializer_list<LayerPair> layers) {
  for (const LayerPair& layer : layers) {
    add_convolution(names, base::str_cat("InceptionV3/", block, "/", layer.ours),
                    base::str_cat(block, ".", layer.theirs));
  }
}

void add_mixed_5(Names& names, const char* block, const char* first, const char* second) {
  add_block(names, block,
            {{"Branch_0/Conv2d_0a_1x1", "branch1x1"},
             {first, "branch5x5_1"},
             {second, "branch5x5_2"},
             {"Branch_2/Conv2d_0a_1x1", "branch3x3dbl_1"},
             {"Branch_2/Conv2d_0b_3x3", "branch3x3dbl_2"},
             {"Branch_2/Conv2d_0c_3x3", "branch3x3dbl_3"},
             {"Branch_3/Conv2d_0b_1x1", "branch_pool"}});
}

void add_mixed_6(Names& names, const char* block) {
  add_block(names, block,
            {{"Branch_0/Conv2d_0a_1x1", "branch1x1"},
             {"Branch_1/Conv2d_0a_1x1", "branch7x7_1"},
             {"Branch_1/Conv2d_0b_1x7", "branch7x7_2"},
             {"Branch_1/Conv2d_0c_7x1", "branch7x7_3"},
             {"Branch_2/Conv2d_0a_1x1", "branch7x7dbl_1"},
             {"Branch_2/Conv2d_0b_7x1", "branch7x7dbl_2"},
             {"Branch_2/Conv2d_0c_1x7", "branch7x7dbl_3"},
             {"Branch_2/Conv2d_0d_7x1", "branch7x7dbl_4"},
             {"Branch_2/Conv2d_0e_1x7", "branch7x7dbl_5"},
             {"Branch_3/Conv2d_0b_1x1", "branch_pool"}});
}

void add_mixed_7(Names& names, const char* block, const char* name_of_3x1) {
  add_block(names, block,
            {{"Branch_0/Conv2d_0a_1x1", "branch1x1"},
             {"Branch_1/Conv2d_0a_1x1", "branch3x3_1"},
             {"Branch_1/Conv2d_0b_1x3", "branch3x3_2a"},
             {name_of_3x1, "branch3x3_2b"},
             {"Branch_2/Conv2d_0a_1x1", "branch3x3dbl_1"},
             {"Branch_2/Conv2d_0b_3x3", "branch3x3dbl_2"},
             {"Branch_2/Conv2d_0c_1x3", "branch3x3dbl_3a"},
             {"Branch_2/Conv2d_0d_3x1", "branch3x3dbl_3b"},
             {"Branch_3/Conv2d_0b_1x1", "branch_pool"}});
}

Names inception_v3_names() {
  Names names;
  for (const char* same :
       {"Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "Conv2d_3b_1x1", "Conv2d_4a_3x3"}) {
    add_convolution(names, base::str_cat("InceptionV3/", same), same);
  }
  add_mixed_5(names, "Mixed_5b", "Branch_1/Conv2d_0a_1x1", "Branch_1/Conv2d_0b_5x5");
  add_mixed_5(names, "Mixed_5c", "Branch_1/Conv2d_0b_1x1", "Branch_1/Conv_1_0c_5x5");
  add_mixed_5(names, "Mixed_5d", "Branch_1/Conv2d_0a_1x1", "Branch_1/Conv2d_0b_5x5");
  add_block(names, "Mixed_6a",
            {{"Branch_0/Conv2d_1a_1x1", "branch3x3"},
             {"Branch_1/Conv2d_0a_1x1", "branch3x3dbl_1"},
             {"Branch_1/Conv2d_0b_3x3", "branch3x3dbl_2"},
             {"Branch_1/Conv2d_1a_1x1", "branch3x3dbl_3"}});
  for (const char* block : {"Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"}) {
    add_mixed_6(names, block);
  }
  add_block(names, "Mixed_7a",
            {{"Branch_0/Conv2d_0a_1x1", "branch3x3_1"},
             {"Branch_0/Conv2d_1a_3x3", "branch3x3_2"},
             {"Branch_1/Conv2d_0a_1x1", "branch7x7x3_1"},
             {"Branch_1/Conv2d_0b_1x7", "branch7x7x3_2"},
             {"Branch_1/Conv2d_0c_7x1", "branch7x7x3_3"},
             {"Branch_1/Conv2d_1a_3x3", "branch7x7x3_4"}});
  add_mixed_7(names, "Mixed_7b", "Branch_1/Conv2d_0b_3x1");
  add_mixed_7(names, "Mixed_7c", "Branch_1/Conv2d_0c_3x1");
  add_block(names, "AuxLogits", {{"Conv2d_1b_1x1", "conv0"}, {"Conv2d_2a_5x5", "conv1"}});
  add_classifier(names, "InceptionV3/AuxLogits/Conv2d_2b_1x1", "AuxLogits.fc");
  add_classifier(names, "InceptionV3/Logits/Conv2d_1c_1x1", "fc");
  return names;
}

void add_unit(Names& names, const std::string& ours, const std::string& theirs, int convolutions) {
  for (int i = 1; i <= convolutions; ++i) {
    add_convolution(names, base::str_cat(ours, "/conv", i), base::str_cat(theirs, ".conv", i),
                    base::str_cat(theirs, ".bn", i));
  }
}

template <int kDepth>
Names resnet_names() {
  const ResNetBlocks& blocks = resnet_blocks(kDepth);
  Names names;
  add_convolution(names, "conv1", "conv1", "bn1");
  for (std::size_t block = 0; block < blocks.units.size(); ++block) {
    for (int unit = 0; unit < blocks.units[block]; ++unit) {
      const auto ours = base::str_cat("block", block + 1, "/unit_", unit + 1);
      const auto theirs = base::str_cat("layer", block + 1, ".", unit);
      add_unit(names, ours, theirs, blocks.has_bottlenecks ? 3 : 2);
      const bool changes_shape = unit == 0 && (block > 0 || blocks.has_bottlenecks);
      if (!changes_shape) continue;
      add_convolution(names, ours + "/shortcut", theirs + ".downsample.0",
                      theirs + ".downsample.1");
    }
  }
  add_classifier(names, "logits", "fc");
  return names;
}

struct NamesOfModel {
  std::string_view model;
  Names (*names)();
};

constexpr auto kNamesOfModels = std::to_array<NamesOfModel>({
    {"inception_v3", inception_v3_names},
    {"resnet101", resnet_names<101>},
    {"resnet152", resnet_names<152>},
    {"resnet18", resnet_names<18>},
    {"resnet34", resnet_names<34>},
    {"resnet50", resnet_names<50>},
});

}  // namespace

std::map<std::string, std::string> torchvision_names(std::string_view model) {
  for (const NamesOfModel& each : kNamesOfModels) {
    if (each.model == model) return each.names();
  }
  throw base::unknown_name("model of torchvision", model, "Models", torchvision_models());
}

std::vector<std::string> torchvision_models() {
  std::vector<std::string> models;
  for (const NamesOfModel& each : kNamesOfModels) models.emplace_back(each.model);
  return models;
}

}  // namespace brigade::models
