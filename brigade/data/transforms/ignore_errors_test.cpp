#include "brigade/data/transforms/ignore_errors.h"

#include <gtest/gtest.h>

#include <string>

#include "brigade/base/log.h"
#include "brigade/data/testing/tf_table_expectations.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

/// Keeps what is logged while it lives.
class LogCapture {
 public:
  LogCapture() {
    base::set_log_sink(
        [this](base::LogLevel, std::string_view text) { lines_.emplace_back(text); });
  }
  ~LogCapture() { base::set_log_sink({}); }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

TEST(IgnoreErrors, MatchesTensorFlow) {
  const Table table("stateful");
  expect_matches_table(table, "range(10).map(fails at threes).ignore_errors()",
                       numbers_with_errors(10, 3).ignore_errors({.log = ErrorLog::kOff}));
}

TEST(IgnoreErrors, OfWhatNeverEndsNeverEnds) {
  const auto endless = numbers_with_errors(10, 3).repeat().ignore_errors();
  EXPECT_EQ(endless.cardinality(), kInfinite);
  EXPECT_EQ(
      epoch_of(endless.take(8)),
      Table("stateful")
          .elements<std::int64_t>("range(1, 10).map(fails at threes).ignore_errors().repeat()"));
}

TEST(IgnoreErrors, AfterParallelStepsResumesEverywhere) {
  const auto numbers = range(40).shuffle(6).map(
      [](std::int64_t x) {
        if (x % 7 == 0) throw Error(ErrorCode::kDataLoss, "sevens are broken");
        return x;
      },
      {.parallelism = 3});
  const auto kept = numbers.ignore_errors({.log = ErrorLog::kOff});
  const Numbers all = epoch_of(kept);
  EXPECT_EQ(all.size(), 34U);
  expect_contract(kept, all, Length::kUnknown);
}

TEST(IgnoreErrors, LogsTheNumberOfSkippedElementsOnceAtTheEnd) {
  const LogCapture log;
  auto iterator = numbers_with_errors(10, 3).skip(1).ignore_errors().iterator();
  for (int i = 0; i < 6; ++i) iterator.next();
  EXPECT_TRUE(log.lines().empty());
  const io::StateTree state = iterator.save();
  iterator.next();
  iterator.next();
  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_NE(log.lines()[0].find("| ignore_errors: 3 elements of epoch 0 were skipped, the first: "),
            std::string::npos)
      << log.lines()[0];
  EXPECT_NE(log.lines()[0].find("3 is broken"), std::string::npos) << log.lines()[0];
  auto resumed = numbers_with_errors(10, 3).skip(1).ignore_errors().iterator();
  resumed.restore(json_round_trip(state));
  resumed.next();
  ASSERT_EQ(log.lines().size(), 2U);
  EXPECT_EQ(log.lines()[1], log.lines()[0]);
}

TEST(IgnoreErrors, LogsNothingIfThereWereNone) {
  const LogCapture log;
  EXPECT_EQ(epoch_of(range(4).ignore_errors({.log = ErrorLog::kEach})).size(), 4U);
  EXPECT_TRUE(log.lines().empty());
}

TEST(IgnoreErrors, LogsEachIfAsked) {
  const LogCapture log;
  epoch_of(numbers_with_errors(5, 4).ignore_errors({.log = ErrorLog::kEach}));
  ASSERT_EQ(log.lines().size(), 3U);
  EXPECT_NE(log.lines()[1].find("an element of epoch 0 was skipped: "), std::string::npos);
  EXPECT_NE(log.lines()[1].find("4 is broken"), std::string::npos);
}

TEST(IgnoreErrors, CountsSkippedElementsInASharedCounter) {
  const auto count = std::make_shared<ErrorCount>();
  const auto kept =
      numbers_with_errors(10, 3).ignore_errors({.log = ErrorLog::kOff, .count = count});
  epoch_of(kept);
  EXPECT_EQ(count->count(), 4U);
  epoch_of(kept);
  EXPECT_EQ(count->count(), 8U);
}

TEST(IgnoreErrors, DoesNotIgnoreCancellation) {
  const concurrency::CancelToken token;
  const auto cancelled = range(4).map([&](std::int64_t x) -> std::int64_t {
    if (x == 2) token.cancel();
    if (x >= 2) throw Error(ErrorCode::kCancelled, "no more");
    return x;
  });
  auto iterator = cancelled.ignore_errors({.log = ErrorLog::kOff}).iterator({.cancel = token});
  EXPECT_EQ(iterator.next(), 0);
  EXPECT_EQ(iterator.next(), 1);
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace brigade::data
