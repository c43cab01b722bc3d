#include "brigade/launch/line_router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "brigade/base/error.h"
#include "brigade/base/log.h"

namespace brigade::launch {
namespace {

using testing::ElementsAre;

struct Routed final : LineSink {
  explicit Routed(OutputOptions options = {}) : router(std::move(options), *this) {}
  void write(Stream stream, std::string_view lines) override {
    (stream == Stream::kOutput ? output : errors) << lines;
  }
  bool is_busy() const override { return false; }
  std::ostringstream output, errors;
  LineRouter router;
};

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "brigade-launch-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const io::Path& path() const { return path_; }

 private:
  io::Path path_;
};

std::string content(const io::Path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(LineRouter, PutsTheRankBeforeEachLine) {
  Routed routed;
  routed.router.write(0, Stream::kOutput, "one\ntwo\n");
  routed.router.write(1, Stream::kErrors, "three\n");
  EXPECT_EQ(routed.output.str(), "[0] one\n[0] two\n");
  EXPECT_EQ(routed.errors.str(), "[1] three\n");
}

TEST(LineRouter, HoldsAPieceBackUntilItsLineEnds) {
  Routed routed;
  routed.router.write(0, Stream::kOutput, "be");
  routed.router.write(1, Stream::kOutput, "other\n");
  EXPECT_EQ(routed.output.str(), "[1] other\n");
  routed.router.write(0, Stream::kOutput, "gin\n");
  EXPECT_EQ(routed.output.str(), "[1] other\n[0] begin\n");
}

TEST(LineRouter, FlushesAnUnfinishedLineAtTheEnd) {
  Routed routed;
  routed.router.write(0, Stream::kOutput, "half");
  routed.router.end(0);
  routed.router.end(0);
  EXPECT_EQ(routed.output.str(), "[0] half\n");
}

TEST(LineRouter, MakesLinesOfRewrittenProgress) {
  Routed routed({.prefix = LinePrefix::kNone});
  routed.router.write(0, Stream::kErrors, "\rstep 1\rstep 2\r\nend\r");
  routed.router.write(0, Stream::kErrors, "\n\nafter\n");
  EXPECT_EQ(routed.errors.str(), "step 1\nstep 2\nend\n\nafter\n");
}

TEST(LineRouter, CutsALineThatNeverEnds) {
  Routed routed({.prefix = LinePrefix::kNone});
  routed.router.write(0, Stream::kOutput, std::string(100'000, 'x'));
  EXPECT_EQ(routed.output.str(), std::string(64 * 1024, 'x') + "\n");
}

TEST(LineRouter, ShowsChosenRanksAndKeepsTheLastLinesOfAll) {
  Routed routed({.ranks = {1}, .kept_lines = 2});
  routed.router.write(0, Stream::kOutput, "a\nb\n");
  routed.router.write(0, Stream::kErrors, "c\n");
  routed.router.write(1, Stream::kOutput, "d\n");
  EXPECT_EQ(routed.output.str(), "[1] d\n");
  EXPECT_EQ(routed.errors.str(), "");
  EXPECT_THAT(routed.router.last_lines(0), ElementsAre("b", "c"));
  EXPECT_THAT(routed.router.last_lines(7), ElementsAre());
}

TEST(LineRouter, WritesEachRanksOwnFilesByteForByte) {
  const TemporaryFolder folder;
  const io::Path logs = folder.path() / "deep" / "logs";
  Routed routed({.ranks = {1}, .directory = logs});
  routed.router.write(0, Stream::kOutput, "a\rb");
  routed.router.write(0, Stream::kErrors, "oh\n");
  routed.router.end(0);
  EXPECT_EQ(content(logs / "rank_0.out"), "a\rb");
  EXPECT_EQ(content(logs / "rank_0.err"), "oh\n");
}

TEST(LineRouter, LabelsStandForNumbersInLinesAndNamesOfFiles) {
  const TemporaryFolder folder;
  Routed routed({.labels = {"worker:0", "ps:0"}, .directory = folder.path()});
  routed.router.write(1, Stream::kOutput, "a\n");
  EXPECT_EQ(routed.output.str(), "[ps:0] a\n");
  EXPECT_EQ(content(folder.path() / "ps_0.out"), "a\n");
}

TEST(LineRouter, ReportsAFileThatCannotBeWrittenCompletely) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/full", folder.path() / "rank_1.out");
  Routed routed({.directory = folder.path()});
  std::vector<std::string> logged;
  base::set_log_sink([&](base::LogLevel, std::string_view text) { logged.emplace_back(text); });
  routed.router.write(1, Stream::kOutput, "one\n");
  routed.router.write(1, Stream::kOutput, "two, three\n");
  routed.router.write(1, Stream::kErrors, "four\n");
  base::set_log_sink({});
  EXPECT_EQ(routed.output.str(), "[1] one\n[1] two, three\n");
  ASSERT_EQ(routed.router.lost().size(), 1U);
  const LostOutput& lost = routed.router.lost().front();
  EXPECT_EQ(lost.file, (folder.path() / "rank_1.out").string());
  EXPECT_EQ(lost.reason, "No space left on device");
  EXPECT_EQ(lost.bytes, 15);
  ASSERT_EQ(logged.size(), 1U);  // once, when it is found
  EXPECT_NE(logged.front().find(lost.file), std::string::npos);
  EXPECT_EQ(content(folder.path() / "rank_1.err"), "four\n");
}

TEST(LineRouter, RefusesAPipeInPlaceOfAFile) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / "rank_0.out").c_str(), 0600), 0);
  Routed routed({.directory = folder.path()});
  EXPECT_THROW(routed.router.write(0, Stream::kOutput, "one\n"), Error);
}

TEST(LineRouter, RefusesAFolderThatCannotBeCreated) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  EXPECT_THROW(Routed({.directory = folder.path() / "file" / "logs"}), Error);
}

}  // namespace
}  // namespace brigade::launch
