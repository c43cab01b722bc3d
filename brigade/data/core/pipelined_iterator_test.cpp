#include "brigade/data/core/pipelined_iterator.h"

#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the test helpers
using std::chrono::microseconds;

/// An input whose position cannot be saved once it was read.
class Forgetful final : public IteratorBase<int> {
 public:
  std::optional<int> next() override { return ++count_; }
  io::StateTree save() const override {
    if (count_ > 0) throw Error(ErrorCode::kUnimplemented, "forgotten");
    return {};
  }
  void restore(const io::StateTree&) override {}

 private:
  int count_ = 0;
};

TEST(PipelinedIterator, AFailingWorkerIsAnErrorNotAHang) {
  PipelinedIterator<int, int> iterator(std::make_unique<Forgetful>(),
                                       [](int&& x, std::uint64_t) { return x; },
                                       {.name = "test", .workers = 2, .capacity = 2});
  const Error error = error_of([&] {
    for (int i = 0; i < 100; ++i) iterator.next();
  });
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
}

TEST(PipelinedIterator, ChunksGrowWhileWorkIsCheap) {
  EXPECT_EQ(next_chunk_size(1, microseconds(1), 16), 2U);
  EXPECT_EQ(next_chunk_size(16, microseconds(1), 16), 16U);
  EXPECT_EQ(next_chunk_size(1, microseconds(1), 1), 1U);
  EXPECT_EQ(next_chunk_size(8, microseconds(100), 16), 8U);
  EXPECT_EQ(next_chunk_size(8, microseconds(1000), 16), 4U);
  EXPECT_EQ(next_chunk_size(1, microseconds(1000), 16), 1U);
}

}  // namespace
}  // namespace brigade::data
