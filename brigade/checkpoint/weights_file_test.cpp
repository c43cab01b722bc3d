#include "brigade/checkpoint/weights_file.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/checkpoint/testing/sample.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/io/testing/sstable_file.h"

namespace brigade::checkpoint {
namespace {

using testing::caught;

io::Path data(const std::string& name) {
  return io::Path(BRIGADE_CHECKPOINT_TEST_DATA) / name;
}

TEST(WeightsFile, RecognizesEachFormatByItsContent) {
  const auto disk = io::posix_file_system();
  const WeightsFile torch = read_weights_file(disk, data("nested.pt"));
  EXPECT_EQ(torch.format, WeightsFormat::kTorch);
  EXPECT_EQ(torch.layout(), WeightsLayout::kTorch);
  EXPECT_FALSE(torch.tensors.empty());
  EXPECT_FALSE(torch.left_out.empty());
  EXPECT_EQ(torch.bytes, disk->info(data("nested.pt"))->size);

  for (const char* path : {"tf/objects", "tf/objects.index"}) {
    const WeightsFile tensorflow = read_weights_file(disk, data(path));
    EXPECT_EQ(tensorflow.format, WeightsFormat::kTensorFlow);
    EXPECT_EQ(tensorflow.layout(), WeightsLayout::kTensorFlow);
    EXPECT_EQ(tensorflow.tensors.size(), 9u);
    EXPECT_EQ(tensorflow.left_out, std::vector<std::string>{"_CHECKPOINTABLE_OBJECT_GRAPH"});
    EXPECT_EQ(tensorflow.bytes, 674U + 1817U);
  }

  const auto memory = std::make_shared<io::MemoryFileSystem>();
  const std::vector<NamedTensor> tensors = {{"a", at::full({2}, 1.0F)}};
  save_safetensors(*memory, "/w", tensors, {{"key", "value"}});
  const WeightsFile safetensors = read_weights_file(memory, "/w");
  EXPECT_EQ(safetensors.format, WeightsFormat::kSafetensors);
  EXPECT_EQ(safetensors.metadata.at("key"), "value");
  EXPECT_EQ(safetensors.layout(), WeightsLayout::kTorch);
}

TEST(WeightsFile, KnowsWhatIsOne) {
  const auto disk = io::posix_file_system();
  EXPECT_TRUE(is_weights_file(*disk, data("tf/saver")));
  EXPECT_TRUE(is_weights_file(*disk, data("tf/saver.index")));
  EXPECT_TRUE(is_weights_file(*disk, data("model.pt")));
  EXPECT_FALSE(is_weights_file(*disk, data("tf")));
  EXPECT_FALSE(is_weights_file(*disk, data("nothing")));
  EXPECT_EQ(caught([&] { read_weights_file(disk, data("nothing")); }).code, ErrorCode::kNotFound);
}

TEST(WeightsFile, SaysWhatToDoWithTablesOfOtherNames) {
  const auto memory = std::make_shared<io::MemoryFileSystem>();
  // Of the format V1: one file, whose header is another message.
  testing::write_file(*memory, "/inception_v3.ckpt", io::sstable({{"", "\x0a\x02\x08\x01"}}));
  const auto v1 = caught([&] { read_weights_file(memory, "/inception_v3.ckpt"); });
  EXPECT_EQ(v1.code, ErrorCode::kUnimplemented);
  EXPECT_NE(v1.message.find("format V1"), std::string::npos) << v1.message;

  testing::write_file(*memory, "/renamed", io::posix_file_system()->read(data("tf/saver.index")));
  const auto renamed = caught([&] { read_weights_file(memory, "/renamed"); });
  EXPECT_EQ(renamed.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(renamed.message.find("PREFIX.index"), std::string::npos) << renamed.message;
}

}  // namespace
}  // namespace brigade::checkpoint
