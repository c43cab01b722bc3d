#include <chrono>
#include <nlohmann/json.hpp>

#include "apps/brigade/commands.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/report.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/io/atomic_write.h"
#include "brigade/runs/report_page.h"
#include "brigade/runs/run_record.h"

namespace brigade::command {
namespace {

constexpr const char* kReportExamples = R"(Examples:
  brigade report /tmp/run
      report.html about one training, running or ended; open it in a browser
  brigade report /tmp/sgd /tmp/adam --output compared.html
      two trainings in one page: curves over each other, configurations side by side)";

constexpr std::size_t kMostRuns = 100;

class ReportCommand final : public Command {
 public:
  explicit ReportCommand(CLI::App& parent)
      : Command(parent, "report", "Write an HTML page about trainings: curves, times, memory") {
    parser_.add_option("MODEL_DIR", directories_, "Model directories of trainings")->required();
    FlagGroup(parser_).add("--output", output_, "The file to write; it is replaced");
    result_.add_to(parser_);
    parser_.footer(kReportExamples);
  }

  int run() override {
    if (directories_.size() > kMostRuns) {
      throw UsageError(directories_.size(), " model directories are given; at most ", kMostRuns,
                       " fit on a page");
    }
    const auto files = io::posix_file_system();
    set_up([&] { check_output(*files); });
    std::vector<runs::RunRecord> all;
    for (const std::string& each : directories_)
      all.push_back(set_up([&] { return runs::RunReader(files, each).read(); }));
    name_by_path_if_equal(all);
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const std::string page =
        runs::report_page(all, {.time = std::chrono::duration<double>(now).count()});
    set_up([&] { io::atomic_write(*files, output_, page); });
    result_.print({{"file", output_}, {"bytes", page.size()}, {"runs", json_of(all)}},
                  base::str_cat(base::printable(output_), ": ", all.size(),
                                all.size() == 1 ? " run, " : " runs, ",
                                base::human_bytes(page.size()), "\n"));
    return kDone;
  }

 private:
  void check_output(const io::FileSystem& files) const {
    const auto found = files.info(output_);
    if (!found || found->kind == io::FileKind::kFile) return;
    throw UsageError("--output is ", base::quoted(output_),
                     ", which is not a file; give the name of an HTML file");
  }

  static Json json_of(const std::vector<runs::RunRecord>& all) {
    Json runs = Json::array();
    for (const runs::RunRecord& each : all)
      runs.push_back({{"name", each.name}, {"model_dir", each.path.string()}});
    return runs;
  }

  /// Runs in folders of the same name.
  static void name_by_path_if_equal(std::vector<runs::RunRecord>& all) {
    std::map<std::string, int> counts;
    for (const runs::RunRecord& each : all) ++counts[each.name];
    for (runs::RunRecord& each : all)
      if (counts[each.name] > 1) each.name = base::printable(each.path.string());
  }

  std::vector<std::string> directories_;
  std::string output_ = "report.html";
  OutputFlag result_;
};

}  // namespace

std::unique_ptr<Command> make_report_command(CLI::App& parent) {
  return std::make_unique<ReportCommand>(parent);
}

}  // namespace brigade::command
