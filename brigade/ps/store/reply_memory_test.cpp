#include "brigade/ps/store/reply_memory.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "brigade/io/testing/memory_file_system.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/service_messages.h"
#include "brigade/ps/testing/store_samples.h"

namespace brigade::ps {
namespace {

const char* bytes_of(const at::Tensor& tensor) {
  return static_cast<const char*>(tensor.const_data_ptr());
}

/// The offset of `tensor` in `memory`, or -1 if it is elsewhere.
std::ptrdiff_t offset_in(const std::string& memory, const at::Tensor& tensor) {
  const char* const begin = bytes_of(tensor);
  const bool is_inside = begin >= memory.data() && begin < memory.data() + memory.size();
  return is_inside ? begin - memory.data() : -1;
}

TEST(ReplyMemory, GivesTensorsOneAfterAnotherAfterTheText) {
  std::string memory(4096, '\0');
  ReplyMemory reply(memory, nullptr);
  reply.begin({.tensors = 4, .dimensions = 5, .bytes = 12 + 0 + 8 + 4});
  const auto text = static_cast<std::ptrdiff_t>(reply.text_bytes());
  EXPECT_GT(text, 0);
  EXPECT_EQ(text % 64, 0);
  EXPECT_EQ(offset_in(memory, reply.next({3}, at::kFloat)), text);
  EXPECT_EQ(reply.next({0, 7}, at::kFloat).sizes(), at::IntArrayRef({0, 7}));
  EXPECT_EQ(offset_in(memory, reply.next({1}, at::kDouble)), -1) << "would not be aligned";
  EXPECT_EQ(offset_in(memory, reply.next({1}, at::kFloat)), text + 20);
}

TEST(ReplyMemory, WithoutRoomTensorsHaveTheirOwn) {
  std::string memory(2048, '\0');
  for (const std::uint64_t bytes :
       {std::uint64_t{2000}, std::numeric_limits<std::uint64_t>::max()}) {
    ReplyMemory reply(memory, nullptr);
    reply.begin({.tensors = 1, .dimensions = 1, .bytes = bytes});
    EXPECT_EQ(reply.text_bytes(), 0U);
    EXPECT_EQ(offset_in(memory, reply.next({500}, at::kFloat)), -1);
  }
  ReplyMemory many(memory, nullptr);
  many.begin({.tensors = std::size_t{1} << 20, .bytes = 8});
  EXPECT_EQ(many.text_bytes(), 0U);
  ReplyMemory none;
  none.begin({.tensors = 1, .bytes = 4});
  EXPECT_EQ(none.next({1}, at::kFloat).numel(), 1);
}

TEST(ReplyMemory, HasRoomForTheLongestText) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  for (const std::size_t count : {0U, 1U, 50U}) {
    ExchangeReply reply{.verdict = coordination::PushVerdict::kFenced,
                        .values = {},
                        .step = kLargest,
                        .staleness = kLargest,
                        .acknowledged = kLargest};
    ReplyMemory memory;
    std::string bytes(1 << 20, '\0');
    memory = ReplyMemory(bytes, nullptr);
    // Empty, so that each length may have all of its digits.
    const std::vector<std::int64_t> sizes = {0, kLargest, 1, 1, 1, 1, 1, 1};
    memory.begin({.tensors = 2 * count, .dimensions = 2 * count * sizes.size()});
    for (std::size_t i = 0; i < count; ++i) {
      reply.values.push_back({.value = memory.next({0}, at::kBFloat16), .updates = kLargest});
      reply.rows.push_back(memory.next({0}, at::kBFloat16));
    }
    const io::BytePieces message = encode_message(to_message(reply), memory.text_bytes());
    EXPECT_EQ(message.size(), memory.text_bytes());
    const ExchangeReply read = exchange_reply_of(decode_message(
        {.bytes = message.pieces().front().bytes, .owner = message.pieces().front().owner}));
    EXPECT_EQ(read.values.size(), count);
    EXPECT_EQ(read.acknowledged, kLargest);
  }
}

TEST(ReplyMemory, AStoreCopiesItsValuesThere) {
  const auto store = testing::make_store(std::make_shared<io::MemoryFileSystem>(),
                                         optim::Sgd{.learning_rate = 1}.rule());
  std::string bytes(4096, '\0');
  ReplyMemory memory(bytes, nullptr);
  const std::vector<RowQuery> rows = {{"weights", at::ones({1}, at::kLong)}};
  const auto pulled = store->pull(std::vector<std::string>{"bias", "count"}, rows, &memory);
  const auto expected = store->pull(std::vector<std::string>{"bias", "count"}, rows);
  auto offset = static_cast<std::ptrdiff_t>(memory.text_bytes());
  ASSERT_GT(offset, 0);
  for (std::size_t i = 0; i < pulled.values.size(); ++i) {
    testing::expect_same_tensor(pulled.values[i].value, expected.values[i].value, "value");
    EXPECT_EQ(offset_in(bytes, pulled.values[i].value), offset);
    offset += static_cast<std::ptrdiff_t>(pulled.values[i].value.nbytes());
  }
  testing::expect_same_tensor(pulled.rows.front(), expected.rows.front(), "rows");
  EXPECT_EQ(offset_in(bytes, pulled.rows.front()), offset);
  // So a message that is written there has nothing but its text to copy.
  ExchangeReply reply{.values = pulled.values, .rows = pulled.rows};
  const io::BytePieces message = encode_message(to_message(reply), memory.text_bytes());
  const std::string joined = message.joined();
  message.copy_to(bytes.data());
  EXPECT_EQ(bytes.substr(0, joined.size()), joined);
}

}  // namespace
}  // namespace brigade::ps
