#include "brigade/comm/announced_layers.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "brigade/comm/replica.h"
#include "brigade/comm/stage_passes.h"

namespace brigade::comm {
namespace {

TEST(AnnouncedLayers, AreNamedOnceInTheirOrder) {
  const at::Tensor x = at::zeros({2});
  const auto names = announced_layers([&] {
    for (const char* name : {"conv", "norm", "conv", "dense"})
      EXPECT_TRUE(begin_layer(name, x).is_same(x));
  });
  EXPECT_EQ(names, (std::vector<std::string>{"conv", "norm", "dense"}));
  EXPECT_TRUE(announced_layers([] {}).empty());
}

TEST(AnnouncedLayers, AViewOfTheReplicaWithAnotherComponentAnnouncesToo) {
  const auto names = announced_layers([&] {
    Replica view = *current_replica();
    view.local_id = 7;
    const base::AmbientScope<const Replica> scope(kReplicaSlot, &view);
    begin_layer("inner", at::zeros({1}));
  });
  EXPECT_EQ(names, std::vector<std::string>{"inner"});
}

TEST(AnnouncedLayers, NothingStaysInstalled) {
  EXPECT_THROW(announced_layers([] { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(current_replica(), nullptr);
}

}  // namespace
}  // namespace brigade::comm
