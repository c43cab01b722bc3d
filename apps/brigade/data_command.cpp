#include "apps/brigade/data_command.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/brigade/data_flags.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/input_run.h"
#include "apps/brigade/report.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

constexpr const char* kDataExamples = R"(Examples:
  brigade data stats --augment random_crop
      how fast the input of `brigade train --augment random_crop` is, and its bottleneck
  brigade data stats --augment random_crop --step-ms 30 --json
      the same with training steps of 30 ms, with JSON output
  brigade data stats --augment random_crop --sweep
      autotuning compared with fixed numbers of threads)";

constexpr double kFewestSeconds = 0.01;

class DataCommand final : public Command {
 public:
  explicit DataCommand(CLI::App& parent)
      : parser_(*parent.add_subcommand("data", "Measure a training's input pipeline")) {
    parser_.require_subcommand(1);
    CLI::App& stats =
        *parser_.add_subcommand("stats", "Measure each step of the input, without the training");
    data_.add_to(stats);
    pipeline_.add_to(stats);
    batch_.add_to(stats);
    stats
        .add_option("--seconds", seconds_, "Seconds to measure, after a warm-up as long, at most 1")
        ->capture_default_str()
        ->group("Steps");
    stats.add_option("--steps", steps_, "Batches to measure, instead of seconds")->group("Steps");
    stats
        .add_option(
            "--step-ms", step_ms_,
            "Milliseconds to sleep between two batches, as a training step on a device takes")
        ->capture_default_str()
        ->group("Steps");
    stats.add_flag("--sweep", sweep_, "Compare autotuning with fixed numbers of threads")
        ->group("Output");
    stats.add_flag("--json", json_, "Write one JSON object to standard output")->group("Output");
    stats.footer(kDataExamples);
  }
  const CLI::App& parser() const override { return parser_; }

  int run() override {
    check_flags();
    const auto examples = set_up([&] { return data_.load(input::Split::kTrain); });
    const InputLength length{.seconds = seconds_, .batches = steps_, .step_ms = step_ms_};
    const auto run_with = [&](std::int64_t map_threads, std::int64_t depth) {
      PipelineFlags flags = pipeline_;
      flags.map_threads = map_threads == data::kAutotune ? "auto" : base::str_cat(map_threads);
      return run_input(flags.apply(examples).repeat().batch(batch_.global_size(1)).prefetch(depth),
                       length);
    };
    sweep_ ? report_sweep(sweep(run_with))
           : report(run_with(pipeline_.map_parallelism(), data::kAutotune));
    return kDone;
  }

 private:
  void check_flags() const {
    data_.check();
    pipeline_.check();
    batch_.check();
    if (!(seconds_ >= kFewestSeconds && seconds_ <= 1e6)) {
      throw UsageError(
          base::str_cat("--seconds is ", seconds_, "; it must be ", kFewestSeconds, " to 1000000"));
    }
    if (steps_) check_at_least("--steps", *steps_, 1);
    if (!(step_ms_ >= 0 && step_ms_ <= 1e6)) {
      throw UsageError(base::str_cat("--step-ms is ", step_ms_, "; it must be 0 to 1000000"));
    }
  }

  void report(const InputRun& run) const {
    if (json_) return print_json(json_of(run));
    print_text(base::str_cat(base::printable(run.pipeline), "\n", fixed(run.examples_per_second, 0),
                             " examples/s, a position of ", run.position_bytes, " bytes\n",
                             data::describe(run.steps)));
  }

  void report_sweep(const InputSweep& sweep) const {
    if (json_) return print_json(json_of(sweep));
    print_text(text_of(sweep));
  }

  CLI::App& parser_;
  DataFlags data_;
  PipelineFlags pipeline_;
  BatchFlags batch_;
  double seconds_ = 3;
  std::optional<std::int64_t> steps_;
  double step_ms_ = 0;
  bool sweep_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_data_command(CLI::App& parent) {
  return std::make_unique<DataCommand>(parent);
}

}  // namespace brigade::command
