#pragma once

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "brigade/base/error.h"
#include "brigade/checkpoint/contents.h"
#include "brigade/checkpoint/manifest.h"
#include "brigade/io/crc32c.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint::testing {

/// Small contents of every kind, with different values for every step.
inline Contents sample(std::int64_t step) {
  const double value = static_cast<double>(step);
  Contents contents;
  contents.tensors = {{"conv1/weights/adam/m", at::full({2, 3}, value, at::kFloat)},
                      {"conv1/weights/adam/v", at::full({2, 3}, value + 0.5, at::kDouble)},
                      {"step", at::full({}, step, at::kLong)}};
  contents.state["position"] = step;
  contents.state["buffer"] = io::StateTree(io::StateTree::Bytes(4, static_cast<std::byte>(step)));
  contents.metrics = {{"accuracy", 1 / (1 + value)}};
  contents.metadata = {{"strategy", "mirrored"}};
  return contents;
}

/// An error's message and code: both are part of the contract.
struct Caught {
  ErrorCode code = ErrorCode::kInternal;
  std::string message = "(nothing was thrown)";
};
inline Caught caught(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

inline void write_file(io::FileSystem& files, const io::Path& path, std::string_view text) {
  const auto file = files.create(path, io::CreateMode::kTruncate);
  file->write(io::as_bytes(text));
  file->close();
}

/// Changes the checkpoint in `folder` to format version 2, with a matching checksum.
inline void make_newer(io::FileSystem& files, const io::Path& folder) {
  const std::string from = "\"brigade_checkpoint\":1", to = "\"brigade_checkpoint\":2";
  std::string text = files.read(folder / kManifestName);
  text.replace(text.find(from), from.size(), to);
  const std::string body = text.substr(0, text.rfind(",\"crc32c\""));
  const std::string sum = to_hex(io::crc32c(io::as_bytes(body)));
  write_file(files, folder / kManifestName, body + ",\"crc32c\":\"" + sum + "\"}\n");
}

}  // namespace brigade::checkpoint::testing
