#include "brigade/checkpoint/row_writer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::checkpoint {
namespace {

std::shared_ptr<io::MemoryFileSystem> new_files() {
  auto files = std::make_shared<io::MemoryFileSystem>();
  files->create_directories("/out");
  return files;
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(RowWriter, WritesTheBytesThatTheWholeTensorsGive) {
  const auto files = new_files();
  const at::Tensor features = at::arange(7 * 6, at::kFloat).view({7, 2, 3});
  const at::Tensor labels = at::arange(7, at::kLong);
  const at::Tensor marks = at::arange(7, at::kByte).view({7, 1});
  const std::map<std::string, std::string> metadata = {{"model", "m"}};
  {
    RowWriter writer(files, "/out/f");
    for (const auto& [begin, end] : std::vector<std::pair<int, int>>{{0, 3}, {3, 3}, {3, 7}}) {
      writer.append("marks", marks.slice(0, begin, end));
      writer.append("features", features.slice(0, begin, end));
      writer.append("labels", labels.slice(0, begin, end));
    }
    EXPECT_EQ(writer.written().at(1).name, "features");
    EXPECT_EQ(writer.written().at(1).shape, (std::vector<std::int64_t>{7, 2, 3}));
    writer.finish(metadata);
  }
  save_safetensors(
      *files, "/out/whole",
      std::vector<NamedTensor>{{"features", features}, {"labels", labels}, {"marks", marks}},
      metadata);
  EXPECT_EQ(files->read("/out/f"), files->read("/out/whole"));
  EXPECT_EQ(files->list("/out"), (std::vector<std::string>{"f", "whole"})) << "and nothing else";
}

TEST(RowWriter, TakesRowsOfAnyStrides) {
  const auto files = new_files();
  const at::Tensor all = at::arange(12, at::kFloat).view({3, 4});
  RowWriter writer(files, "/out/f");
  writer.append("x", all.t());
  writer.finish();
  EXPECT_TRUE(at::equal(read_safetensors(*files, "/out/f").at("x"), all.t()));
}

TEST(RowWriter, LeavesNothingWithoutFinish) {
  const auto files = new_files();
  save_safetensors(*files, "/out/f", std::vector<NamedTensor>{{"old", torch::zeros({1})}});
  const std::string before = files->read("/out/f");
  {
    RowWriter writer(files, "/out/f");
    writer.append("x", torch::zeros({2, 2}));
    EXPECT_EQ(files->list("/out").size(), 2U);
  }
  EXPECT_EQ(files->list("/out"), (std::vector<std::string>{"f"}));
  EXPECT_EQ(files->read("/out/f"), before);
}

TEST(RowWriter, RefusesRowsThatDiffer) {
  RowWriter writer(new_files(), "/out/f");
  writer.append("x", torch::zeros({2, 3}));
  EXPECT_EQ(refusal([&] {
              writer.append("x", torch::zeros({2, 4}));
            }),
            "RowWriter: the rows of 'x' have shape [4], but they had [3] before");
  EXPECT_EQ(refusal([&] {
              writer.append("x", torch::zeros({2, 3}, at::kLong));
            }),
            "RowWriter: the rows of 'x' are Long, but they were Float before");
  EXPECT_NE(refusal([&] { writer.append("y", torch::zeros({})); }).find("[n, ...]"),
            std::string::npos);
  EXPECT_NE(refusal([&] { writer.append("y", torch::zeros({1}, at::kComplexFloat)); }).find("F32"),
            std::string::npos);
  EXPECT_NE(refusal([&] { RowWriter(new_files(), "/out/"); }).find("names no file"),
            std::string::npos);
}

}  // namespace
}  // namespace brigade::checkpoint
