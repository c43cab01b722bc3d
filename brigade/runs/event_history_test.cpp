#include "brigade/runs/event_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/base/testing/manual_clock.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/summary/summary_writer.h"

namespace brigade::runs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class EventHistoryTest : public testing::Test {
 protected:
  /// A process that begins at `first` and writes the loss of these steps.
  std::unique_ptr<summary::SummaryWriter> process(std::int64_t first, std::int64_t last,
                                                  double loss) {
    auto writer = std::make_unique<summary::SummaryWriter>(files_, "/run", clock_);
    writer->session_start(first);
    for (std::int64_t step = first; step <= last; ++step) writer->scalar("loss", loss, step);
    writer->flush();
    clock_.advance(std::chrono::seconds(60));  // the names of the files have seconds
    return writer;
  }

  std::vector<double> values(const EventHistory& history) {
    std::vector<double> found;
    if (!history.curves().contains("loss")) return found;
    for (const CurvePoint& point : history.curves().at("loss").points) found.push_back(point.value);
    return found;
  }

  base::ManualClock clock_;
  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  EventHistory history_{files_, "/run"};
};

TEST_F(EventHistoryTest, IsEmptyWithoutAFolder) {
  history_.update();
  EXPECT_FALSE(history_.has_events());
  EXPECT_THAT(history_.problems(), IsEmpty());
}

TEST_F(EventHistoryTest, FollowsAProcessAndTheOneThatResumesIt) {
  const auto first = process(1, 3, 0.5);
  history_.update();
  EXPECT_THAT(values(history_), ElementsAre(0.5, 0.5, 0.5));
  first->scalar("loss", 4, 4);
  first->flush();
  const auto second = process(3, 4, 7);  // steps 3 and 4 are made again
  history_.update();
  EXPECT_THAT(values(history_), ElementsAre(0.5, 0.5, 7, 7));
  ASSERT_EQ(history_.starts().size(), 2u);
  EXPECT_EQ(history_.starts()[1].step, 3);
  EXPECT_EQ(history_.starts()[1].repeated, 2);
  EXPECT_EQ(history_.starts()[1].pause, 0);
  EXPECT_FALSE(history_.starts()[1].host.empty());
  EXPECT_FALSE(history_.starts()[1].process.empty());
}

TEST_F(EventHistoryTest, KeepsWhatComesBeforeABrokenRecord) {
  process(1, 2, 0.25)->close();
  const io::Path path = summary::event_files(*files_, "/run").front();
  std::string bytes = files_->read(path);
  bytes[bytes.size() - 6] ^= 1;  // of the last record
  files_->create(path, io::CreateMode::kTruncate)->write(io::as_bytes(bytes));
  history_.update();
  EXPECT_THAT(values(history_), ElementsAre(0.25));
  EXPECT_THAT(history_.problems(), ElementsAre(HasSubstr("is left out")));
}

TEST_F(EventHistoryTest, LimitsTheNumberOfTags) {
  summary::SummaryWriter writer(files_, "/run", clock_);
  for (std::size_t i = 0; i < EventHistory::kMostCurves + 5; ++i)
    writer.scalar("tag" + std::to_string(i), 1, 1);
  writer.close();
  history_.update();
  EXPECT_EQ(history_.curves().size(), EventHistory::kMostCurves);
  EXPECT_THAT(history_.problems(), ElementsAre(HasSubstr("5 values of the others")));
}

}  // namespace
}  // namespace brigade::runs
